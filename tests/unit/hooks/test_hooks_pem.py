"""PEM files that are read at the start and again when they are renewed."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from scheduler.hooks.pem import LARGEST_AUTHORITY, Authority


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    path.write_bytes(trustme.CA().cert_pem.bytes())
    return path


def test_authority_is_the_text_of_its_file(file):
    authority = Authority(file)
    authority.files.load()
    assert authority.text == file.read_text()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "expected a certificate in PEM"),
        (b"\xff\xfe", "expected a certificate in PEM"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "in PEM"),
        (b"#" * (LARGEST_AUTHORITY + 1), "expected only the certificate of the authority"),
    ],
)
def test_file_that_is_no_authority_is_refused_with_its_name(file, content, told):
    file.write_bytes(content)
    with pytest.raises(OSError, match=told) as refused:
        Authority(file).files.load()
    assert str(file) in str(refused.value)


def test_file_that_is_not_there_is_refused_with_its_name(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        Authority(tmp_path / "nowhere").files.load()


def test_renewed_authority_is_taken_and_a_bad_one_is_not(file):
    authority = Authority(file)
    authority.files.load()
    first = authority.text
    file.write_text("half written")
    with pytest.raises(OSError, match="in PEM"):
        authority.files.load()
    assert authority.text == first
    file.write_bytes(trustme.CA().cert_pem.bytes())
    authority.files.load()
    assert authority.text == file.read_text() != first
