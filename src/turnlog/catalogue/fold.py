"""Folding: what counts as the same letter, whatever its case.

One character becomes one character, so that a place in the folded text is the same place in the text. Whatever Python's
``re.IGNORECASE`` takes for the same letter folds to the same one; and what no database stores as text (NUL, halves of
broken pairs) becomes U+FFFD.
"""

from __future__ import annotations

from functools import cache
from typing import Final

_ALIKE: Final = {"\u0130": "i", "\u0131": "i", "\u0390": "\u1fd3", "\u03b0": "\u1fe3", "\ufb05": "\ufb06"}
"""Letters that ``re`` takes for the same although no change of case leads from one to the other."""
_LOST: Final = "\ufffd"


def fold(text: str) -> str:
    """*text* with every letter in one case; as long as it was."""
    if text.isascii():
        return text.lower() if "\0" not in text else text.lower().replace("\0", _LOST)
    return text.translate(_table())


@cache
def _table() -> dict[int, str]:
    """Every character that folds to another one; made when the first text needs it."""
    found = {code: _fold_one(chr(code)) for code in range(0x1F000) if not 0xD800 <= code < 0xE000}
    table = {code: folded for code, folded in found.items() if folded != chr(code)}
    table.update(dict.fromkeys(range(0xD800, 0xE000), _LOST))
    table[0] = _LOST
    return table


def _fold_one(character: str) -> str:
    if character in _ALIKE:
        return _ALIKE[character]
    folded = character
    for change in (str.upper, str.lower):  # Σ, σ and ς meet in the capital letter; so do many pairs
        changed = change(folded)
        folded = changed if len(changed) == 1 else folded
    return folded
