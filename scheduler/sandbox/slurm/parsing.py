"""How data_parser reads a job description: leniently, and with measured faults.

Measured on 26.05.5 and 24.11.5. Unknown fields and wrong types cause only warnings. A client must
know two of the consequences. A wrong type in an integer field gives HTTP 200, no error and no job
(``dropped``). An unknown flag gives an error, but the job is submitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from .errors import SlurmError
from .shapes import Shape
from .times import read_time

_TYPES: Final = {
    "string": "type=string (Slurm type=string)",
    "integer": "type=integer format=int32 (Slurm type=64 bit integer)",
    "boolean": "type=boolean (Slurm type=boolean)",
    "strings": "type=array (Slurm type=list)",
    "names": "type=array (Slurm type=list)",
    "flags": "type=array (Slurm type=list)",
}
_SLURM_TYPES: Final = {
    str: "string",
    bool: "boolean",
    int: "64 bit integer",
    float: "floating point number",
    list: "list",
    dict: "dictionary",
    type(None): "null",
}
_OPENAPI_TYPES: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
# data_parser reads these as times, whatever type the OpenAPI document says.
_MOMENTS: Final = {"begin_time": "moment", "deadline": "moment"}
_MEBIBYTES: Final = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


@dataclass(frozen=True, slots=True)
class Warned:
    """One entry of an answer's ``warnings``."""

    description: str
    source: str


@dataclass(slots=True)
class Description:
    """A job description after data_parser has read it: the known fields, converted."""

    fields: dict[str, Any] = field(default_factory=dict)
    warnings: list[Warned] = field(default_factory=list)
    faults: list[SlurmError] = field(default_factory=list)
    dropped: bool = False

    @property
    def fatal(self) -> bool:
        """Whether a fault prevents the submit; an unknown flag (9207) does not."""
        return any(fault.number != 9207 for fault in self.faults)


def describe(data: Mapping[str, Any], shape: Shape, *, source: str = "#/job/") -> Description:
    """Convert the fields of a job description; collect warnings and faults."""
    found = Description()
    for name, value in data.items():
        kind = shape.description.get(name)
        if kind is None:
            found.warnings.append(unknown_field(name, value, source))
        else:
            _convert(found, name, value, kind, shape, source=f"{source}{name}")
    return found


def unknown_field(
    name: str, value: object, source: str, *, record: str = "DATA_PARSER_JOB_DESC_MSG"
) -> Warned:
    """Return the warning about a field that the parser of ``record`` does not know."""
    kind = _SLURM_TYPES.get(type(value), "object")
    return Warned(f'Ignoring unknown field "{name}" of type {kind} in {record}', f"{source}{name}/")


def wrong_type(value: object, wanted: str, source: str) -> Warned:
    """Return the warning about a value whose type differs from the OpenAPI document."""
    kind = type(value)
    shown = msgspec.json.encode(value).decode()
    return Warned(
        f"Expected OpenAPI {_TYPES.get(wanted, wanted)} but got OpenAPI "
        f"type={_OPENAPI_TYPES.get(kind, 'object')} "
        f"(Slurm type={_SLURM_TYPES.get(kind, 'object')}): {shown}",
        f"{source}/",
    )


def _convert(
    found: Description, name: str, value: Any, kind: str, shape: Shape, *, source: str
) -> None:
    match _MOMENTS.get(name, kind):
        case "moment":
            _moment(found, name, value, source)
        case "integer":
            _integer(found, name, value, source)
        case "number":
            _number(found, name, value, source)
        case "strings":
            _strings(found, name, value, source)
        case "flags":
            _flags(found, name, value, shape, source)
        case "names":
            _names(found, name, value, source)
        case "boolean":
            found.fields[name] = value is True or value in (1, "true", "yes", "1")
        case "string":
            _string(found, name, value, source)
        case _:
            found.fields[name] = value


def _integer(found: Description, name: str, value: Any, source: str) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        found.fields[name] = value
        return
    found.warnings.append(wrong_type(value, "integer", source))
    try:
        found.fields[name] = int(value)
    except (TypeError, ValueError):
        found.dropped = True


def _number(found: Description, name: str, value: Any, source: str) -> None:
    """Read a number, plain or as a triple; None stands for "not set or infinite"."""
    if isinstance(value, dict):
        infinite = value.get("infinite") is True
        is_set = value.get("set", "number" in value) is True
        value = value.get("number") if is_set and not infinite else None
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        found.fields[name] = value
        return
    number = _text_number(str(value))
    if number is None:
        found.faults.append(
            SlurmError(9202, f'Expected integer but got "{value}"', source=f"{source}/")
        )
    else:
        found.fields[name] = number


def _moment(found: Description, name: str, value: Any, source: str) -> None:
    """Read a time: a number, or a text in sbatch's format, which is checked and kept."""
    if not isinstance(value, str):
        _number(found, name, value, source)
        return
    try:
        read_time(value)
    except ValueError as error:
        found.faults.append(SlurmError(9202, str(error), source=f"{source}/"))
    else:
        found.fields[name] = value


def _text_number(text: str) -> int | None:
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "M")
    try:
        return int(float(digits) * _MEBIBYTES[unit])
    except (KeyError, ValueError):
        return None


def _strings(found: Description, name: str, value: Any, source: str) -> None:
    if isinstance(value, list):
        found.fields[name] = [str(item) for item in value]
        return
    found.warnings.append(wrong_type(value, "strings", source))
    if isinstance(value, dict):
        found.fields[name] = [f"{key}={item}" for key, item in value.items()]
        return
    found.faults.append(
        SlurmError(9208, f'expected a list of strings but got "{value}"', source=f"{source}/")
    )


def _names(found: Description, name: str, value: Any, source: str) -> None:
    if not isinstance(value, list):
        found.warnings.append(wrong_type(value, "names", source))
        value = str(value).split(",")
    if value:  # an empty list sets nothing, one empty name clears the field (measured)
        found.fields[name] = tuple(str(item) for item in value if item)


def _flags(found: Description, name: str, value: Any, shape: Shape, source: str) -> None:
    if not isinstance(value, list):
        found.warnings.append(wrong_type(value, "flags", source))
        value = str(value).split(",")
    known = {"flags": shape.job_flags, "shared": shape.shared}.get(name)
    for index, flag in enumerate(value):
        if known is not None and flag not in known:
            found.faults.append(
                SlurmError(9207, f'Unknown flag "{flag}"', source=f"{source}[{index}]/")
            )
    found.fields[name] = [flag for flag in value if known is None or flag in known]


def _string(found: Description, name: str, value: Any, source: str) -> None:
    if not isinstance(value, str):
        found.warnings.append(wrong_type(value, "string", source))
    found.fields[name] = str(value) if value is not None else ""
