"""What a batch script would do, read from its text.

The model runs no shell. It recognises the few forms that placeholders and tests use: ``sleep N``,
``sleep infinity``, ``exit N``, a trap that ignores SIGTERM, and ``srun``, which starts a step on
each node of the job. A script without any of them ends at once.
"""

import re
from dataclasses import dataclass

_SLEEP = re.compile(r"\bsleep\s+(infinity|\d+(?:\.\d+)?)")
_EXIT = re.compile(r"^\s*exit\s+(\d+)", re.MULTILINE)
_TRAP = re.compile(r"""\btrap\s+(?:''|""|:)\s+(?:\S+\s+)*(?:SIG)?TERM\b""")
_STEP = re.compile(r"^\s*srun\b", re.MULTILINE)
_LOOP = re.compile(r"\bwhile\s+(?::|true)\b")


@dataclass(frozen=True, slots=True)
class ScriptModel:
    """The behaviour of a script.

    It runs for ``seconds`` by itself, for ever if None. SIGTERM ends it after ``term_seconds``
    unless it ignores the signal. Its processes are ``on_each_node`` of the job, or on the first one
    only.
    """

    seconds: float | None
    exit_code: int = 0
    ignores_term: bool = False
    term_seconds: float = 0.05
    on_each_node: bool = False


def read(script: str) -> ScriptModel:
    """Return the behaviour of the script."""
    code = _EXIT.search(script)
    return ScriptModel(
        seconds=_seconds(script),
        exit_code=int(code[1]) if code else 0,
        ignores_term=_TRAP.search(script) is not None,
        on_each_node=_STEP.search(script) is not None,
    )


def _seconds(script: str) -> float | None:
    naps = _SLEEP.findall(script)
    if "infinity" in naps or _LOOP.search(script):
        return None
    return sum(map(float, naps), start=0.1)
