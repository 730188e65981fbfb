"""Structured logs on stderr: JSON lines, or columns for a terminal."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

import structlog

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
PASS_FIELDS: Final[ContextVar[Mapping[str, str]]] = ContextVar(
    "pass_fields", default=MappingProxyType({})
)
"""What each line of the present pass says, unless the line says otherwise. It is one variable,
because most passes log little, and to bind each field as structlog does takes ten times as long.
"""
_FIRST: Final = ("level", "event", "timestamp")
_JSON: Final = json.JSONEncoder(default=repr)


def set_up(level: str, form: str) -> None:
    """Configure structlog for the process. Other libraries log only warnings: kubernetes_asyncio
    would log whole response bodies at DEBUG, with the tokens in them.
    """
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    renderers: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer()] if console else [_json_line]
    )
    structlog.configure(
        processors=[
            _with_fields_of_the_pass,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)


def _with_fields_of_the_pass(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    for key, value in PASS_FIELDS.get().items():
        event.setdefault(key, value)
    return event


def _json_line(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> str:
    """The line in an order for readers: they see long JSON lines cut off at the right."""
    first = {key: event[key] for key in _FIRST if key in event}
    return _JSON.encode({**first, **event})
