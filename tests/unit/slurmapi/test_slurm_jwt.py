"""How long a token says that it is good for; anything else than a JWT says nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmapi import FileToken, StaticToken
from slurmapi.jwt import lifetime, user_of
from slurmapi.tokens import CHECK_SECONDS


def token(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"head.{body}.signature"


@pytest.mark.parametrize("user", ["a", "al", "ali", "alice"])  # each length of padding
def test_claims_are_read(user: str) -> None:
    text = token({"exp": 1_800_000_000, "iat": 1_795_000_000, "sun": user})
    claims = lifetime(text)
    assert (claims.issued_at, claims.expires_at) == (1_795_000_000, 1_800_000_000)
    assert user_of(text) == user


@pytest.mark.parametrize("claims", [{}, {"sun": 5}, {"sun": None}, []])
def test_token_without_a_user_names_none(claims: object) -> None:
    assert user_of(token(claims)) == ""


def test_claim_that_is_missing_is_not_known() -> None:
    claims = lifetime(token({"exp": 1_800_000_000}))
    assert math.isnan(claims.issued_at)
    assert claims.expires_at == 1_800_000_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "opaque",
        "a.b",
        "a.!.c",
        "a.\x80.c",
        "a..c",
        token([1]),
        token({"exp": "soon"}),
        token(None),
    ],
)
def test_anything_else_says_nothing(text: str) -> None:
    assert math.isnan(lifetime(text).expires_at)
    assert user_of(text) == ""


@given(st.text(), st.binary())
def test_no_text_at_all_is_an_error(text: str, body: bytes) -> None:
    lifetime(text)
    lifetime(f"a.{base64.urlsafe_b64encode(body).decode()}.c")


@pytest.mark.looptime
async def test_sources_know_the_lifetime_of_what_they_gave(tmp_path: Path) -> None:
    assert StaticToken(token({"exp": 5})).lifetime.expires_at == 5
    path = tmp_path / "token"
    path.write_text(token({"exp": 6}))
    source = FileToken(path)
    assert math.isnan(source.lifetime.expires_at)
    await source.token()
    assert source.lifetime.expires_at == 6
    path.write_text(token({"exp": 70}))
    await asyncio.sleep(CHECK_SECONDS)
    await source.token()
    assert source.lifetime.expires_at == 70
