"""Decodes any answer of slurmrestd: JSON or not, errors, warnings, and its various forms of
numbers.

Versions differ in form: ids are integers, strings or {"set","infinite","number"} objects, states
are a list or a string, and missing values are null, "" or 0. Unknown fields are skipped. If a
required field is missing, the answer is garbled; it never becomes an empty result.
"""

from __future__ import annotations

import json
import re
from typing import ClassVar, Final, TypeVar

import msgspec

from slurmapi.errors import SlurmError, SlurmGarbled, refusal, refusal_by_status
from slurmapi.http1 import Response

MAX_SHOWN: Final = 300
# Later than any real time of a job; PENDING jobs were seen with an end_time of 6121712804.
_TIME_MAX: Final = 2**32 - 2
_WEIGHTS: Final = {2017: 1, 0: 2}


class _Triple(msgspec.Struct, frozen=True):
    set: bool | None = True
    infinite: bool | None = False
    number: int | float | None = None


Number = int | float | str | _Triple | None
Words = list[str] | str | None


class ApiError(msgspec.Struct, frozen=True):
    """One entry of `errors`."""

    error_number: Number = None
    error: str | None = None
    description: str | None = None
    source: str | None = None

    @property
    def number(self) -> int:
        """Slurm's error number, 0 when it gave none."""
        return integer(self.error_number) or 0

    @property
    def text(self) -> str:
        """Slurm's text: its general description of the error, and the particular one."""
        words = dict.fromkeys(word for word in (self.error, self.description) if word)
        return ": ".join(words)[:MAX_SHOWN]


class _Warning(msgspec.Struct, frozen=True):
    description: str | None = None
    source: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """The fields of every JSON answer. `of_write` says that it answers a submit or an update."""

    of_write: ClassVar[bool] = False
    errors: list[ApiError] | None = None
    warnings: list[_Warning | str] | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """The warnings as text."""
        texts = (
            item if isinstance(item, str) else item.description for item in self.warnings or ()
        )
        return tuple(text[:MAX_SHOWN] for text in texts if text)

    def refusal(self, status: int) -> SlurmError | None:
        """The most important error: "no such job" counts only if there is no other error."""
        listed = sorted(self.errors or (), key=lambda error: _WEIGHTS.get(error.number, 0))
        if not listed:
            return None
        number, text = listed[0].number, self.explained(listed[0])
        return refusal(number, status=status, description=text, of_write=self.of_write)

    def explained(self, error: ApiError) -> str:
        """What one of the errors says, for people."""
        return error.text


A = TypeVar("A", bound=Answer)
T = TypeVar("T")


def is_json(response: Response) -> bool:
    """Whether the body is a JSON object; slurmrestd's own complaints are plain text."""
    return response.body[:64].lstrip()[:1] == b"{"


def decode(response: Response, kind: type[A]) -> A:
    """The answer as `kind`, whatever its status.

    Raises SlurmGarbled, or the error for the status if the body is not a JSON object. Every answer
    of slurmrestd has a list of errors, which is mostly empty (measured on 24.11.5 and 26.05.5). A
    2xx answer without that list comes from something else.
    """
    if not is_json(response):
        text = response.body[:MAX_SHOWN].decode("utf-8", "replace").strip()
        if response.ok:
            raise SlurmGarbled(f"HTTP {response.status} without JSON: {text[:80]!r}")
        raise refusal_by_status(response.status, text=text, retry_after=response.retry_after)
    answer = _decoded(response.body, kind)
    if response.ok and answer.errors is None:
        raise SlurmGarbled(f"HTTP {response.status} with JSON that is none of slurmrestd's")
    return answer


def failure(response: Response, answer: Answer) -> SlurmError | None:
    """The error in an answer: by its `errors` whatever the status is, otherwise by the status."""
    refusal = answer.refusal(response.status)
    if refusal is not None or response.ok:
        return refusal
    return refusal_by_status(
        response.status, text="no explanation", retry_after=response.retry_after
    )


def settled(response: Response, kind: type[A]) -> A:
    """The answer as `kind`, if it has no error; otherwise raises the error."""
    answer = decode(response, kind)
    error = failure(response, answer)
    if error is not None:
        raise error
    return answer


def part(raw: msgspec.Raw, kind: type[T]) -> T:
    """A part of an answer as `kind`. Raises SlurmGarbled."""
    return _decoded(raw, kind)


def _decoded(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise SlurmGarbled(f"unexpected shape of an answer: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(bytes(body), kind)


def _decode_leniently(body: bytes, kind: type[T]) -> T:
    """Decodes what Slurm may write but msgspec rejects: text that is not UTF-8, NaN and
    Infinity.
    """
    try:
        return msgspec.convert(json.loads(body.decode("utf-8", "replace")), type=kind)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise SlurmGarbled(f"an answer that is no JSON: {str(error)[:80]}") from None


def integer(value: Number) -> int | None:
    """The integer; None for null, "not set", infinite, and anything that is not a number."""
    if isinstance(value, _Triple):
        return integer(value.number) if value.set and not value.infinite else None
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else None
    if isinstance(value, float):
        return int(value) if abs(value) < 2**53 else None
    return value


def time_of(value: Number) -> int | None:
    """Unix seconds; None for 0 and for times that no job can have."""
    seconds = integer(value)
    return seconds if seconds is not None and 0 < seconds <= _TIME_MAX else None
