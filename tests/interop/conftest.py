"""dsh beside the tests of this directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import peer_dsh


@pytest.fixture(scope="session")
def dsh() -> Path:
    """The folder of dsh's packages, to be handed to ``run_peer``."""
    peer = peer_dsh.ensure_peer()
    if peer is None:
        pytest.skip("no Node.js, or its registry cannot be reached")
    return peer
