"""What a batch script would do, read from its text.

The model runs no shell. It recognises the few forms that placeholders and tests use: ``sleep N``,
``sleep infinity``, ``exit N`` and a trap that ignores SIGTERM. A script without any of them ends at
once.
"""

import re
from dataclasses import dataclass

_SLEEP = re.compile(r"\bsleep\s+(infinity|\d+(?:\.\d+)?)")
_EXIT = re.compile(r"^\s*exit\s+(\d+)", re.MULTILINE)
_TRAP = re.compile(r"""\btrap\s+(?:''|""|:)\s+(?:\S+\s+)*(?:SIG)?TERM\b""")
_LOOP = re.compile(r"\bwhile\s+(?::|true)\b")


@dataclass(frozen=True, slots=True)
class ScriptModel:
    """The behaviour of a script.

    It runs for ``seconds`` by itself, for ever if None. SIGTERM ends it after ``term_seconds``
    unless it ignores the signal.
    """

    seconds: float | None
    exit_code: int = 0
    ignores_term: bool = False
    term_seconds: float = 0.05


def read(script: str) -> ScriptModel:
    """Return the behaviour of the script."""
    code = _EXIT.search(script)
    return ScriptModel(
        seconds=_seconds(script),
        exit_code=int(code[1]) if code else 0,
        ignores_term=_TRAP.search(script) is not None,
    )


def _seconds(script: str) -> float | None:
    naps = _SLEEP.findall(script)
    if "infinity" in naps or _LOOP.search(script):
        return None
    return sum(map(float, naps), start=0.1)
