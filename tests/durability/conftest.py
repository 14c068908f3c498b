"""What tests of live sessions share."""

from __future__ import annotations

import pytest

from turnlog.store import behind


@pytest.fixture
def only_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written before somebody waits for it, however slow this machine is."""
    for name in ("WRITE_WITHIN", "SYNC_WITHIN", "RETRY_WITHIN"):
        monkeypatch.setattr(behind, name, 10**6)
