"""Reads the protobuf bodies that kubectl sends for `kubectl create ...`; answers are always JSON.

`protobuf_schema.py` has the field numbers of Kubernetes 1.36 (generated.proto of k8s.io/api) for
everything that these commands can express. A field that is not in it is refused, never dropped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from scheduler.sandbox.kube.errors import bad_request
from scheduler.sandbox.kube.protobuf_schema import SCHEMA, Field

Body = dict[str, Any]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN_BIT = 1 << 63


def decode(data: bytes) -> Body:
    """The object in a runtime.Unknown envelope. Raises ApiError 400."""
    if not data.startswith(_MAGIC):
        raise bad_request("the body is not a Kubernetes protobuf message: wrong magic number")
    try:
        envelope = dict(_fields(data[len(_MAGIC) :]))
        kind = dict(_fields(_bytes(envelope[1])))
        api_version, name = _text(kind.get(1, b"")), _text(kind[2])
        body = _message(name, _bytes(envelope.get(2, b"")))
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise bad_request(f"cannot decode the protobuf body: {error!r}") from error
    return {"kind": name, "apiVersion": api_version, **body}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and raw value of each field."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            length, at = _varint(data, at)
        if length is None or at + length > len(data):
            raise ValueError(f"field {number} is cut off, or of wire type {wire}")
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7


def _message(name: str, data: bytes) -> Body:
    if name not in SCHEMA:
        raise bad_request(f"{name} cannot be read as protobuf here; send it as JSON")
    schema, body = SCHEMA[name], Body()
    for number, raw in _fields(data):
        field = schema.get(number)
        if field is None:
            raise bad_request(
                f"field {number} of {name} cannot be read as protobuf here; send it as JSON"
            )
        _take(body, field, raw)
    return body


def _take(body: Body, field: Field, raw: int | bytes) -> None:
    if field.type == "-":
        return
    if field.is_map:
        entry = dict(_fields(_bytes(raw)))
        key = _text(entry.get(1, b""))
        body.setdefault(field.name, {})[key] = _value(field.type, entry.get(2, b""))
        return
    value = _value(field.type, raw)
    if field.repeated:
        body.setdefault(field.name, []).append(value)
    elif value not in (None, ""):  # Go sends empty values too
        body[field.name] = value


def _value(kind: str, raw: int | bytes) -> Any:
    match kind:
        case "s":
            return _text(raw)
        case "i":
            return _signed(raw)
        case "b":
            return bool(raw)
        case "n":
            return _signed(raw) or None
        case "f":
            return bool(raw) or None
        case "y":
            return base64.b64encode(_bytes(raw)).decode()
        case "Quantity":
            return _text(dict(_fields(_bytes(raw))).get(1, b""))
        case "IntOrString":
            parts = dict(_fields(_bytes(raw)))
            return _text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0))
        case _:
            return _message(kind, _bytes(raw))


def _signed(raw: int | bytes) -> int:
    if not isinstance(raw, int):
        raise TypeError("a number was expected")
    return raw - 2 * _SIGN_BIT if raw & _SIGN_BIT else raw


def _bytes(raw: int | bytes) -> bytes:
    if not isinstance(raw, bytes):
        raise TypeError("a length-delimited field was expected")
    return raw


def _text(raw: int | bytes) -> str:
    return _bytes(raw).decode()
