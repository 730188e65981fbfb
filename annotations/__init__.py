"""Turns a pod's annotations and resources into a Slurm job request, or a list of problems. Pure."""

from annotations.grace import longest_grace
from annotations.model import (
    GPU_TYPE_KEYS,
    PREFIX,
    AffinityExpression,
    ContainerResources,
    JobRequest,
    LostSlot,
    PodView,
    Rules,
    Sharing,
    Switches,
)
from annotations.parse import parse
from annotations.problems import Problem

__all__ = [
    "GPU_TYPE_KEYS",
    "PREFIX",
    "AffinityExpression",
    "ContainerResources",
    "JobRequest",
    "LostSlot",
    "PodView",
    "Problem",
    "Rules",
    "Sharing",
    "Switches",
    "longest_grace",
    "parse",
]
