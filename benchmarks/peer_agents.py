"""The other harnesses beside ours: installed once with pip into a throw-away environment, run as processes of it.

`peers_agent/` holds the pinned `requirements.txt`, the workload and one script for each; `.work/agents` (ignored by
git) holds the environment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
SOURCE: Final = HERE / "peers_agent"
WORK: Final = HERE / ".work" / "agents"
PYTHON: Final = WORK / "bin" / "python"
INSTALLED: Final = WORK / "installed.txt"  # copy of the requirements.txt that it was made from
PEERS: Final = {"pydantic-ai": "pydantic_ai", "openai-agents": "openai_agents", "langgraph": "langgraph"}
"""Each harness and the end of its script's name."""

PIP_INSTALL: Final = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement")


def ensure_peers() -> bool:
    """Whether the peers can be run, after installing them when `requirements.txt` has changed.

    Prints one sentence that says why when they cannot (no network, for example); everything else still runs.
    """
    requirements = SOURCE / "requirements.txt"
    if INSTALLED.exists() and INSTALLED.read_bytes() == requirements.read_bytes():
        return True
    shutil.rmtree(WORK, ignore_errors=True)
    for command in ([sys.executable, "-m", "venv", str(WORK)], [str(PYTHON), *PIP_INSTALL, str(requirements)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if line.lower().startswith("error")]
            said = errors[0] if errors else done.stderr.strip()[-200:]
            print(f"comparison with {', '.join(PEERS)} left out: they could not be installed ({said}).")
            return False
    shutil.copy2(requirements, INSTALLED)
    return True


def run_peer(peer: str, messages: int, variant: str, conversations: int) -> list[float]:
    """Seconds of each turn of *peer*."""
    command = [str(PYTHON), str(SOURCE / f"run_{PEERS[peer]}.py"), str(messages), variant, str(conversations)]
    # Nothing of what is measured may reach for the network: no traces, no updates.
    environment = {**os.environ, "LANGSMITH_TRACING": "false", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{peer}: {done.stderr.strip()[-2000:]}")
    found: Any = json.loads(done.stdout)
    return [float(one) for one in found["seconds"]]
