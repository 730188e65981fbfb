"""Tokens and passwords are taken out of what people gave before it is shown."""

from __future__ import annotations

import pytest

from scheduler.observe.redacted import redacted

_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjF9.c2VjcmV0LXNpZ25hdHVyZQ"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("http://h:6820", "http://h:6820"),
        ("http://user:pw@h:6820", "http://***@h:6820"),
        ("http://user:p@w/x@h:6820/y", "http://***@h:6820/y"),
        ("'https://user:pw@h'", "'https://***@h'"),
        ("user:pw@h:6820", "***@h:6820"),
        ("no address: http://u:p@h and http://v:q@i", "no address: http://***@h and http://***@i"),
        ("http://h:6820?token=pw", "http://h:6820?***"),
        ("http://h:6820/x#pw more", "http://h:6820/x?*** more"),
        (_JWT, "***"),
        (f"SLURM_JWT={_JWT} x", "SLURM_JWT=*** x"),
        ("('team-a', 'team-b')", "('team-a', 'team-b')"),
        ("why? no: 30s", "why? no: 30s"),
    ],
)
def test_secrets_are_hidden_and_nothing_else(given: str, shown: str) -> None:
    assert redacted(given) == shown
