"""The command line: parse, call, print. Everything it shows comes from the library.

Exit codes: 0 ok · 1 found nothing, or `verify` found faults · 2 wrong usage · 3 the log cannot be read or is of an
unsupported format · 4 read in part (torn tail, forensic reading, sessions with problems) · 70 a fault of turnlog
itself · 74 the output could not be written · 130 interrupted · 141 the reader of the output went away.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code. ``turnlog --version`` imports nothing that it does not need."""
    try:
        from .run import run

        return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return 130
