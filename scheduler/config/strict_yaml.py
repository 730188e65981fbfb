"""YAML for settings files, stricter than the standard: a key that is given twice is an error, and
so is an alias, with which a hundred bytes can stand for gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import yaml

from scheduler.observe.redacted import redacted

# Keys are names of settings, and no setting has a longer name.
_LONGEST_KEY: Final = 60
_LONGEST_PROBLEM: Final = 300
# YAML's messages quote the file, and a quoted part may be a secret. This leaves only YAML's own
# names of tokens (`<...>`) and single characters.
_QUOTED: Final = re.compile(r"'(?!<)[^']{3,}'|\"[^\"]{3,}\"")
_NUMBERS: Final = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
# With a leading 0 it is read as octal, and with a colon as hours, minutes and seconds.
_MISLEADING: Final = re.compile(r"[-+]?0[0-9_]+|.*:.*")
_DECIMAL: Final = (
    "a number with a leading 0 or a colon is another number in YAML: write it in decimal, or in "
    "quotes"
)


class Loader(yaml.SafeLoader):
    """Refuses aliases, and keys that are given twice (YAML itself would take the last value)."""

    def compose_node(
        self, parent: yaml.Node | None, index: yaml.Node | int | None
    ) -> yaml.Node | None:
        """The next node. Raises MarkedYAMLError for an alias."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            problem = "aliases (*name) are not supported: repeat the value"
            raise yaml.MarkedYAMLError(None, None, problem, mark)
        return super().compose_node(parent, index)  # type: ignore[arg-type]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping. Raises _TwiceError if a key is given twice."""
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):
                line = key_node.start_mark.line + 1
                if key in seen:
                    raise _TwiceError(key, seen[key], line)
                seen[key] = line
        return super().construct_mapping(node, deep=deep)


class _SettingsLoader(Loader):
    """Refuses numbers that mean another number than they show."""

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """The text of the node. Raises MarkedYAMLError for such a number."""
        if node.tag in _NUMBERS and _MISLEADING.fullmatch(str(node.value)):
            raise yaml.MarkedYAMLError(None, None, _DECIMAL, node.start_mark)
        return super().construct_scalar(node)


class _TwiceError(ValueError):
    def __init__(self, key: object, first: int, second: int) -> None:
        shown = redacted(repr(key)[:_LONGEST_KEY])
        super().__init__(f"line {second}: {shown} is given twice, first in line {first}")


def load(found: bytes) -> object:
    """The parsed content. Raises ValueError with a text to put after the file's name: ", line 3:
    ...".

    The text quotes nothing of the file, because settings files may hold secrets.
    """
    with in_words():
        return yaml.load(found.decode(), _SettingsLoader)  # noqa: S506 - a safe loader


@contextmanager
def in_words() -> Iterator[None]:
    """Raise what YAML raises as ValueError, with the text that `load` has."""
    try:
        yield
    except UnicodeDecodeError:
        raise ValueError(": expected text in UTF-8") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = _QUOTED.sub("'...'", " ".join(str(error.problem).split())[:_LONGEST_PROBLEM])
        raise ValueError(f"{where}: {problem}") from None
    except _TwiceError as error:
        raise ValueError(f", {error}") from None
    except yaml.reader.ReaderError as error:
        raise ValueError(f": not YAML: {error.reason} at character {error.position}") from None
    except RecursionError:
        raise ValueError(": not YAML: nested too deeply") from None
    except (yaml.YAMLError, ValueError, AttributeError, LookupError, TypeError):
        # The last three are what is raised for values such as `!!bool x`, `!!int ""`, `!!map [x]`.
        raise ValueError(": not YAML: a value is not what its tag or its form says") from None
