"""dsh's own loader opens the sessions that are made of other programs' files. Run by ``make interop``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks import peer_dsh
from tests.foreign.files import FILES
from tests.rewrite.test_dsh import opens
from turnlog.store import convert

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not os.environ.get("TURNLOG_INTEROP"), reason="make interop runs dsh beside turnlog"),
]


@pytest.mark.parametrize("for_dsh", [False, True], ids=["all", "for-dsh"])
def test_dsh_opens_what_was_made_of_other_programs_files(tmp_path: Path, for_dsh: bool) -> None:
    peer = peer_dsh.ensure_peer()
    if peer is None:
        pytest.skip("no Node.js, or its registry cannot be reached")
    for number, path in enumerate(FILES):
        convert(path, tmp_path, id=f"made-{number}", for_dsh=for_dsh)
    opens(peer, tmp_path)
