"""``turnlog verify``"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnlog.events.lossless import plain
from turnlog.store import StoredSession
from turnlog.store.finding import Finding
from turnlog.store.proven import Proof
from turnlog.store.verify import Report
from turnlog.store.verify import verify as verify_log
from turnlog.views.rows import SeqRange, holes, ranges_of, seq_ranges

from ..json_views import document, ranges_view
from ..opening import STANDARD_INPUT, Which, lost_header
from ..screen import NOTHING, PARTLY, UNREADABLE, Screen, Style, Styled

_CODES = {"ok": 0, "faults": NOTHING, "torn": PARTLY, "refused": UNREADABLE}
_STYLES: dict[str, Style] = {"ok": "green", "note": "dim", "faults": "yellow", "fault": "yellow", "torn": "yellow",
                             "refused": "red"}  # fmt: skip


def verify(screen: Screen, which: Which, *, forensic: bool, as_json: bool) -> None:
    """Check a log and print what was found."""
    source, name = which.source()
    report = verify_log(source, name=name)
    if name == STANDARD_INPUT and report.session is not None and (lost := lost_header(report.session)) is not None:
        report = Report(None, (lost,), None)  # whatever else was found, was found in a log that it is not
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
    if report.session is not None and report.path is not None:
        _attested(screen, report.proof)
    if forensic and report.session is not None:
        _readable(screen, report.session)


def _attested(screen: Screen, proof: Proof) -> None:
    """How far the seals beside the log prove it, and what its writers noted there."""
    if proof.state not in ("altered", "shorter"):  # those are findings already
        screen.line(f"  seals: {proof}")
    if proof.requests:
        screen.line(f"  requests: {proof.requests} are proven to be what the log says the model was shown")
    for note in proof.notes:
        screen.line(f"  noted at {note.seq} events: {note.text}")
    if proof.unreadable:
        screen.line(f"  {proof.unreadable} lines of the attestation are no records")


def _finding(screen: Screen, finding: Finding) -> None:
    seq = "" if finding.seq is None else f"@{finding.seq} "
    screen.line("  ", Styled(f"{finding.severity:8}", _STYLES[finding.severity]), f"{finding.code}  {seq}{finding}")


def _readable(screen: Screen, session: StoredSession) -> None:
    there = seq_ranges(session)
    missing = holes(there)
    told = f"{sum(one.size for one in there)} events" + (f": {_listed(there)}" if there else "")
    screen.line(f"  readable: {told}" + (f"; missing {_listed(missing)}" if missing else ""))
    for number, branch in enumerate(session.branches, 1):
        screen.line(f"  branch {number}: {len(branch.events)} events that cannot follow the log: "
                    f"{_listed(ranges_of(branch.events))}, at {branch.place}")  # fmt: skip
    if session.torn is not None:
        torn = session.torn
        screen.line(f"  torn tail: {torn.size} bytes from byte {torn.offset} on; {torn.recovered} records recovered")


def _listed(ranges: Sequence[SeqRange]) -> str:
    return ", ".join(map(str, ranges))


def _view(report: Report, name: str, forensic: bool) -> dict[str, Any]:
    session = report.session
    view: dict[str, Any] = {
        "path": None if name == STANDARD_INPUT else name if report.path is None else str(report.path),
        "id": report.id,
        "format": report.format,
        "events": report.events,
        "verdict": report.verdict,
        "findings": [
            {**plain(finding), "severity": finding.severity, "place": plain(finding.place)}
            for finding in report.findings
        ],
        "proof": {
            "state": report.proof.state,
            "seq": report.proof.seq,
            "at": report.proof.at,
            "missing": report.proof.missing,
            "unreadable": report.proof.unreadable,
            "requests": report.proof.requests,
            "unproven": [plain(one) for one in report.proof.unproven],
            "notes": [plain(note) for note in report.proof.notes],
        },
        "torn": None if session is None or session.torn is None else session.torn._asdict(),
    }
    if forensic:
        there = [] if session is None else seq_ranges(session)
        view["readable"], view["missing"] = ranges_view(there), ranges_view(holes(there))
        view["branches"] = [
            {"branch": number, "place": plain(branch.place), "events": len(branch.events),
             "readable": ranges_view(ranges_of(branch.events))}
            for number, branch in enumerate(() if session is None else session.branches, 1)
        ]  # fmt: skip
    return view
