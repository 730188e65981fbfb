"""PEM files that are read at the start and again when they are renewed."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from scheduler.hooks.pem import LARGEST_AUTHORITY, Authority, Certificate


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
    assert str(refused.value).startswith(f"{file}: ")


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


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Files with a certificate and its key."""
    leaf = trustme.CA().issue_cert("localhost")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    leaf.cert_chain_pems[0].write_to_path(certificate)
    leaf.private_key_pem.write_to_path(key)
    return certificate, key


@pytest.mark.parametrize("wrong", ["phrase", "another", "swapped", "empty", "folder"])
def test_pair_that_does_not_fit_is_refused_with_what_is_expected(pair, tmp_path, wrong):
    """A key with a pass phrase, too: on a terminal the process would stand still and ask for it."""
    certificate, key = pair
    Certificate(certificate, key).files.load()
    if wrong == "phrase":
        secret = serialization.load_pem_private_key(key.read_bytes(), None)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
        hidden = serialization.BestAvailableEncryption(b"phrase")
        key.write_bytes(secret.private_bytes(*form, hidden))
    elif wrong == "another":
        trustme.CA().private_key_pem.write_to_path(key)
    elif wrong == "swapped":
        certificate, key = key, certificate
    elif wrong == "empty":
        key.write_bytes(b"")
    else:
        key = tmp_path
    with pytest.raises(OSError, match=r"^expected a certificate chain") as refused:
        Certificate(certificate, key).files.load()
    assert f"its key in {key}, both in PEM, and the key without a pass phrase" in str(refused.value)
