"""dsh's session package beside ours: installed once with npm, run with its own Node 22.

`peer/` holds the pinned `package.json` and the scripts; `.work/peer` (ignored by git) holds what
npm makes of them. The scripts are copied there because Node resolves imports from where a
script lies.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
SOURCE: Final = HERE / "peer"
WORK: Final = HERE / ".work" / "peer"
INSTALLED: Final = "installed.json"  # copy of the package.json that node_modules was made from
NODE: Final = "node_modules/.bin/node"  # the pinned Node 22, not the one on the PATH

# dsh's release candidates name peer ranges that no published version satisfies.
NPM_INSTALL: Final = ("install", "--legacy-peer-deps", "--no-package-lock", "--no-audit", "--no-fund")


class PeerError(RuntimeError):
    """A peer script failed; the message holds what it wrote to stderr."""


def ensure_peer() -> Path | None:
    """The folder to hand to `run_peer`, installing it first when `package.json` has changed.

    Returns None, after printing one sentence that says why, when Node or npm is missing or the
    install fails (no network): comparisons are then left out, everything else still runs.
    """
    if not _is_current() and not _install():
        return None
    for script in SOURCE.glob("*.mjs"):
        shutil.copy2(script, WORK)
    return WORK


def run_peer(peer: Path, script: str, *arguments: str | Path) -> Any:
    """Run `bench.mjs` or `check.mjs` and return the JSON it prints; raises `PeerError` when it fails."""
    command = [peer / NODE, peer / script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise PeerError(f"{script} {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def _is_current() -> bool:
    installed = WORK / INSTALLED
    return installed.exists() and installed.read_bytes() == (SOURCE / "package.json").read_bytes()


def _install() -> bool:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        print("dsh comparison left out: it needs npm and node on the PATH.")
        return False
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    shutil.copy2(SOURCE / "package.json", WORK)
    done = subprocess.run([npm, *NPM_INSTALL], cwd=WORK, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not (WORK / NODE).exists():
        print(f"dsh comparison left out: npm install failed ({_first_error(done.stderr)}).")
        return False
    shutil.copy2(SOURCE / "package.json", WORK / INSTALLED)
    return True


def _first_error(stderr: str) -> str:
    """npm's first error line; its warnings come before it."""
    errors = (line for line in stderr.splitlines() if line.startswith("npm error"))
    return next(errors, "no Node 22 came with it")


if __name__ == "__main__":
    if (ready := ensure_peer()) is not None:
        print(ready)
