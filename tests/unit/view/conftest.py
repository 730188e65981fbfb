"""The scripted API server of the tests of `kube`, without settings from outside."""

from tests.unit.kube.conftest import _no_outside_settings, stub

__all__ = ["_no_outside_settings", "stub"]
