"""Settings that are names or maps of names: how they are written, and which are accepted."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator

from scheduler.core.naming import OWN_PREFIX

_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/")
_GRES_TYPE: Final = re.compile(r"[\w.-]*[A-Za-z][\w.-]*", re.ASCII)
_GRES: Final = re.compile(rf"[A-Za-z]\w*(:{_GRES_TYPE.pattern})?", re.ASCII)


def _pairs(value: object) -> object:
    if not isinstance(value, str):
        return value
    pairs = [part.strip().partition("=") for part in value.split(",") if part.strip()]
    if not all(separator for _, separator, _ in pairs):
        raise ValueError("expected KEY=VALUE, several joined by commas")
    names = [key.strip() for key, _, _ in pairs]
    twice = next((it for it in names if names.count(it) > 1), None)
    if twice is not None:  # of two values one would be lost without a word
        raise ValueError(f"{twice!r} is given twice: expected one value for each name")
    return {key.strip(): item.strip() for key, _, item in pairs}


def _named_in(pattern: re.Pattern[str], example: str) -> AfterValidator:
    def check(values: dict[str, str]) -> dict[str, str]:
        wrong = [f"{k}={v}" for k, v in values.items() if not k or not pattern.fullmatch(v)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is not accepted: expected a value such as {example}")
        return values

    return AfterValidator(check)


def _prefix(value: str) -> str:
    if value and _PREFIX.fullmatch(value) is None:
        raise ValueError("expected a DNS name and a slash, such as slurm.example.com/")
    if value == OWN_PREFIX:
        raise ValueError(f"{OWN_PREFIX} is for what the scheduler writes itself")
    return value


Prefix = Annotated[str, AfterValidator(_prefix)]
GresMap = Annotated[
    dict[str, str], BeforeValidator(_pairs), _named_in(_GRES, "amd.com/gpu=gpu:mi300x")
]
TypeMap = Annotated[
    dict[str, str], BeforeValidator(_pairs), _named_in(_GRES_TYPE, "NVIDIA_H100=h100")
]
