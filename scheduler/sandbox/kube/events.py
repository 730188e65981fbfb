"""Converts Events between two versions: v1, in which they are stored, and events.k8s.io/v1."""

from __future__ import annotations

from scheduler.sandbox.kube.resources import Body

_TO_NEW = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_TO_CORE = {new: core for core, new in _TO_NEW.items()}


def to_new(body: Body) -> Body:
    """A v1 Event as events.k8s.io/v1."""
    renamed = {_TO_NEW.get(key, key): value for key, value in body.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1", "kind": "Event"}


def to_core(body: Body) -> Body:
    """An events.k8s.io/v1 Event as v1."""
    renamed = {_TO_CORE.get(key, key): value for key, value in body.items()}
    return {**renamed, "apiVersion": "v1", "kind": "Event"}
