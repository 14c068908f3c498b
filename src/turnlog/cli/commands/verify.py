"""``turnlog verify``"""

from __future__ import annotations

from typing import Any

from turnlog.events.lossless import plain
from turnlog.store.finding import Finding
from turnlog.store.verify import Report
from turnlog.store.verify import verify as verify_log

from ..json_views import document
from ..opening import Which
from ..screen import NOTHING, PARTLY, UNREADABLE, Screen, Style, Styled

_CODES = {"ok": 0, "faults": NOTHING, "torn": PARTLY, "refused": UNREADABLE}
_STYLES: dict[str, Style] = {"ok": "green", "note": "dim", "faults": "yellow", "fault": "yellow", "torn": "yellow",
                             "refused": "red"}  # fmt: skip


def verify(screen: Screen, which: Which, *, forensic: bool, as_json: bool) -> None:
    """Check a log and print what was found."""
    source, name = which.source()
    report = verify_log(source, name=name)
    if as_json:
        screen.json(document(**_view(report, name, forensic)))
    else:
        _print(screen, report, name, forensic)
    screen.code = _CODES[report.verdict]
    if report.verdict == "refused":
        if report.session is None:
            screen.hint("nothing of it is readable")
        elif forensic:
            screen.code = PARTLY
        else:
            screen.hint("--forensic says what is readable")


def _print(screen: Screen, report: Report, name: str, forensic: bool) -> None:
    what = [f"session {report.id}", str(report.format), f"{report.events} events"] if report.id is not None else [name]
    screen.line(Styled(report.verdict, _STYLES[report.verdict]), f": {', '.join(what)}")
    for finding in report.findings:
        _finding(screen, finding)
    if forensic and report.session is not None:
        _readable(screen, report)


def _finding(screen: Screen, finding: Finding) -> None:
    seq = "" if finding.seq is None else f"@{finding.seq} "
    screen.line("  ", Styled(f"{finding.severity:8}", _STYLES[finding.severity]), f"{finding.code}  {seq}{finding}")


def _readable(screen: Screen, report: Report) -> None:
    session = report.session
    assert session is not None
    events = session.events
    screen.line(f"  readable: {report.events} events" + (f", @{len(session) - len(events)} to @{len(session) - 1}"
                                                          if len(events) else ""))  # fmt: skip
    for branch in session.branches:
        seqs = f"@{branch.events[0].seq} to @{branch.events[-1].seq}" if branch.events else "none"
        screen.line(f"  branch: {len(branch.events)} events that cannot follow the log, {seqs}, at {branch.place}")
    if session.torn is not None:
        torn = session.torn
        screen.line(f"  torn tail: {torn.size} bytes from byte {torn.offset} on; {torn.recovered} records recovered")


def _view(report: Report, name: str, forensic: bool) -> dict[str, Any]:
    session = report.session
    view: dict[str, Any] = {
        "path": name if report.path is None else str(report.path),
        "id": report.id,
        "format": report.format,
        "events": report.events,
        "verdict": report.verdict,
        "findings": [
            {**plain(finding), "severity": finding.severity, "place": plain(finding.place)}
            for finding in report.findings
        ],
        "torn": None if session is None or session.torn is None else session.torn._asdict(),
    }
    if forensic:
        branches = () if session is None else session.branches
        view["branches"] = [
            {"place": plain(branch.place), "events": len(branch.events), "seqs": [one.seq for one in branch.events]}
            for branch in branches
        ]
    return view
