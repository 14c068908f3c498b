"""Tools from typed functions, and the pipeline every call passes.

::

    model's text → prepare (arguments, policy, approval) → execute (the body) → finish (review) → result in the log

A tool is a typed function under ``@tool``; a :class:`Toolbox` holds them by name; a :class:`Pipeline` takes each call
through its stages and never leaves one without a result.
"""

from .approval import Answerer, Approvals
from .body import GRACE
from .call import Call, Result
from .context import Spill, ToolContext
from .errors import (
    ToolArgsError,
    ToolDefinitionError,
    ToolFailure,
    ToolFault,
    ToolNotFoundError,
    ToolOutputError,
)
from .files import Files, Seen
from .hooks import Answer, ApprovalRequest, Execute, Finished, PostExecute, PreExecute, Progress, Question
from .pipeline import Executed, Pipeline, Prepared, Stuck
from .rules import Action, Rule, RuleError
from .settings import ApprovalSettings, approval_settings
from .tool import AnyTool, Policy, Proposal, Subjects, Tool, ToolOutput, tool
from .toolbox import Toolbox
from .verdict import Accept, Allow, Ask, Deny, Reject, Review, Verdict

__all__ = [
    "GRACE",
    "Accept",
    "Action",
    "Allow",
    "Answer",
    "Answerer",
    "AnyTool",
    "ApprovalRequest",
    "ApprovalSettings",
    "Approvals",
    "Ask",
    "Call",
    "Deny",
    "Execute",
    "Executed",
    "Files",
    "Finished",
    "Pipeline",
    "Policy",
    "PostExecute",
    "PreExecute",
    "Prepared",
    "Progress",
    "Proposal",
    "Question",
    "Reject",
    "Result",
    "Review",
    "Rule",
    "RuleError",
    "Seen",
    "Spill",
    "Stuck",
    "Subjects",
    "Tool",
    "ToolArgsError",
    "ToolContext",
    "ToolDefinitionError",
    "ToolFailure",
    "ToolFault",
    "ToolNotFoundError",
    "ToolOutput",
    "ToolOutputError",
    "Toolbox",
    "Verdict",
    "approval_settings",
    "tool",
]
