"""YAML as people write it into settings files: a key that is given twice is a fault."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping; raises MarkedYAMLError."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):
                if key in seen:
                    mark = key_node.start_mark
                    raise yaml.MarkedYAMLError(None, None, f"{key!r} is given twice", mark)
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


def load(found: bytes) -> object:
    """What is written there. Raises ValueError, its text behind a file's name: ", line 3: ..."."""
    try:
        return yaml.load(found.decode(), _Loader)  # noqa: S506 - a safe loader
    except UnicodeDecodeError:
        raise ValueError(": expected text in UTF-8") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"{where}: {error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f": not YAML: {' '.join(str(error).split())}") from None
