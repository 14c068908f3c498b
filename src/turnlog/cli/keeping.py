"""The commands that write: repair, convert, compress, decompress, rm. Each makes a whole new file first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from .opening import Which
from .options import AsJson, Latest, Roots, SessionName, screen_of

_Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Also sessions without a lock file, which dsh may be writing: end dsh first.")
]
_CutTorn: TypeAlias = Annotated[
    bool, typer.Option("--cut-torn", help="Leave out the unfinished tail of a log whose writer was cut off.")
]


def add_commands(app: typer.Typer) -> None:
    """Add them to the command line."""
    for name, command in (
        ("repair", _repair),
        ("convert", _convert),
        ("compress", _compress),
        ("decompress", _decompress),
        ("redact", _redact),
        ("rm", _rm),
    ):
        app.command(name)(command)


def _repair(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Put the repaired log in the place of the damaged one, which is kept.")
    ] = False,
    force: _Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a whole log of a damaged one.

    \b
      turnlog repair session.jsonl            into a new file beside it: session.jsonl.repaired-…
      turnlog repair session.jsonl --apply    also swap the names; the damaged log is kept

    Says what it did, which events have other seqs now, and what is lost. Exit code: 0 whole, 4 something is lost.
    """
    from .commands.repair import repair

    repair(screen_of(context), Which(session, latest, root or []), apply=apply, force=force, as_json=as_json)


def _convert(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", show_default=False, help="Root for the new session.")
    ] = None,
    in_place_root: Annotated[
        bool, typer.Option("--in-place-root", help="The new session goes into the root of the old one.")
    ] = False,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", show_default=False, help="Its id; a fresh one by default.")
    ] = None,
    for_dsh: Annotated[bool, typer.Option("--for-dsh", help="Leave out events that dsh 0.1 does not know.")] = False,
    forensic: Annotated[
        bool, typer.Option("--forensic", help="Take what is readable of a log that strict readers refuse.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a format-0 session of one in any format.

    \b
      turnlog convert session.jsonl --out converted
      turnlog convert --latest --in-place-root --for-dsh

    Only format 0 is resumed and forked. The old session stays; convert-map.json beside the new log tells which event
    became which.
    """
    from .commands.convert import convert

    convert(screen_of(context), Which(session, latest, root or []), out=out, in_place_root=in_place_root, id=id,
            for_dsh=for_dsh, forensic=forensic, as_json=as_json)  # fmt: skip


def _compress(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    force: _Force = False,
    cut_torn: _CutTorn = False,
    as_json: AsJson = False,
) -> None:
    """Pack a session, or a whole root, into zstd frames.

    \b
      turnlog compress --root ~/.dsh/sessions --force
      turnlog compress --latest --force

    The log says the same afterwards, and its seals stay valid. One session is refused where its root would then hold
    plain and compressed logs, which dsh does not open.
    """
    from .commands.repack import repack

    which = Which(session, latest, root or [])
    repack(screen_of(context), which, compressed=True, force=force, cut_torn=cut_torn, as_json=as_json)


def _decompress(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    force: _Force = False,
    cut_torn: _CutTorn = False,
    as_json: AsJson = False,
) -> None:
    """Unpack a session, or a whole root, into plain lines.

    \b
      turnlog decompress --root ~/.dsh/sessions --force
      turnlog decompress --root ~/.dsh/sessions --force --json

    Plain lines are for grep and tail -f. The same rules hold as for compress.
    """
    from .commands.repack import repack

    which = Which(session, latest, root or [])
    repack(screen_of(context), which, compressed=False, force=force, cut_torn=cut_torn, as_json=as_json)


def _rm(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: _Force = False,
    as_json: AsJson = False,
) -> None:
    """Remove a session for ever; asks first.

    \b
      turnlog rm session-9b26 --yes --force
      turnlog rm session-0466 --yes --force --json

    Only what turnlog and dsh keep in its directory is removed. Forks hold their own copy of what they inherited.
    """
    from .commands.rm import rm

    rm(screen_of(context), Which(session, latest, root or []), yes=yes, force=force, as_json=as_json)


def _redact(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="NAME=PATTERN", show_default=False, help="One more kind of secret."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a log without its secrets.

    \b
      turnlog redact --latest
      turnlog redact session-9b26 --rule order='ORD-[0-9]+'

    The log itself is not changed. The copy has the same events under the same numbers; keys, tokens and passwords are
    [redacted:KIND]. It lies beside the log and is named for what it is.
    """
    from .commands.redact import redact

    redact(screen_of(context), Which(session, latest, root or []), rules=rule or [], as_json=as_json)
