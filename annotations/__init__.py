"""Pod annotations and resources to a Slurm job request, or a list of problems; pure."""

from annotations.model import (
    PREFIX,
    ContainerResources,
    JobRequest,
    PodSpec,
    Rules,
    Sharing,
    Switches,
)
from annotations.parse import parse
from annotations.problems import Problem

__all__ = [
    "PREFIX",
    "ContainerResources",
    "JobRequest",
    "PodSpec",
    "Problem",
    "Rules",
    "Sharing",
    "Switches",
    "parse",
]
