"""The package root exports what others may use, and says so completely."""

from __future__ import annotations

import types

import slurmapi


def test_all_names_every_public_name_of_the_root() -> None:
    public = {
        name
        for name, value in vars(slurmapi).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(slurmapi.__all__) == public
    assert len(slurmapi.__all__) == len(public)


def test_errors_form_one_tree() -> None:
    for name in slurmapi.__all__:
        value = getattr(slurmapi, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, slurmapi.SlurmError | slurmapi.HostlistError), name
