"""The provider of `benchmarks.working`, in a process of its own: ``python -m benchmarks.loop_server PIECES PAUSE``.

Every request gets the same answer of so many pieces, *pause* seconds between any two of them (0: as fast as it is
read). The first line of stdout is the base URL; it serves until stdin is closed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from turnlog.model.scripted import text, usage
from turnlog.testing import LoopbackServer, reply

from .peers_agent import workload


def pieces(count: int) -> list[str]:
    """The answer, in pieces."""
    if count == len(workload.PIECES):
        return list(workload.PIECES)
    return [f"word{number % 1000:03d} " for number in range(count)]


def main() -> None:
    """Serve until stdin is closed."""
    count, pause = int(sys.argv[1]), float(sys.argv[2])
    answer = reply(text(*pieces(count)), usage(100, count), pause=pause)
    with LoopbackServer([answer] * 100_000, strict=False) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


@contextmanager
def serving(count: int, pause: float = 0.0) -> Iterator[str]:
    """A server in a process of its own; its base URL."""
    command = [sys.executable, "-m", "benchmarks.loop_server", str(count), str(pause)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


if __name__ == "__main__":
    main()
