"""The seam to providers: requests, the chunk stream, adapters."""

from .assembler import Assembler
from .errors import AssemblyError, Diverged, ModelError, ScriptError, UnknownProvider
from .http import HttpModel
from .protocol import Model, ModelInfo
from .recorded import RecordedModel
from .registry import open_model
from .request import Request
from .scripted import (
    Gate,
    ScriptedModel,
    call,
    crash,
    cut,
    error,
    max_tokens,
    raw,
    reasoning,
    stop,
    text,
    usage,
    wait,
)
from .uncaught import uncaught

__all__ = [
    "Assembler",
    "AssemblyError",
    "Diverged",
    "Gate",
    "HttpModel",
    "Model",
    "ModelError",
    "ModelInfo",
    "RecordedModel",
    "Request",
    "ScriptError",
    "ScriptedModel",
    "UnknownProvider",
    "call",
    "crash",
    "cut",
    "error",
    "max_tokens",
    "open_model",
    "raw",
    "reasoning",
    "stop",
    "text",
    "uncaught",
    "usage",
    "wait",
]
