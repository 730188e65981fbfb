"""What the commands about pods know of the site: flags and variables that the service has too."""

from __future__ import annotations

import argparse
import os
from typing import Final

from annotations import PREFIX
from scheduler.config import flags
from scheduler.config.settings import ENV_PREFIX, Settings
from scheduler.view.connection import variables
from scheduler.view.row import Names

_FLAGS_OF_RUN: Final = ("kubeconfig", "annotation_prefix", "device_resources")
_SETTINGS: Final = ("scheduler_name", *_FLAGS_OF_RUN)
"""Settings of the service that count here too; their environment variables do as well."""
SLURM_FLAGS: Final = frozenset({"slurm_api_base", "slurm_auth_token_file"})
_SLURM_SETTINGS: Final = (*SLURM_FLAGS, "slurm_cluster", "slurm_auth_token")
"""They count as well where Slurm itself is asked."""


def add_namespace(group: argparse._ActionsContainer) -> None:
    """Add the flag that names one namespace."""
    group.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        help="the namespace (default: that of the kubeconfig's context)",
    )


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where the cluster is, and how the site calls things."""
    parser.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")
    parser.add_argument(
        "--scheduler-name",
        default=argparse.SUPPRESS,
        metavar="NAME",
        help="the schedulerName of the pods (default: slurm-scheduler)",
    )
    for name in _FLAGS_OF_RUN:
        flags.add_argument(parser, name)


def add_slurm_flags(group: argparse._ActionsContainer) -> None:
    """Add the flags that say where Slurm is, and with whose token it is asked."""
    for name in sorted(SLURM_FLAGS):
        flags.add_argument(group, name)


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings that the flags and the environment give. Raises SettingsError."""
    asks_slurm = getattr(arguments, "jobs", False)
    names = (*_SETTINGS, *(_SLURM_SETTINGS if asks_slurm else ()))
    given = {name: it for name, it in vars(arguments).items() if name in names}
    return flags.load_settings(
        argparse.Namespace(**given), variables(os.environ, ENV_PREFIX, names)
    )


def site_names(settings: Settings) -> Names:
    """How the site calls things."""
    prefixes = filter(None, (PREFIX, settings.annotation_prefix))
    return Names(prefixes=tuple(prefixes), gpus=settings.gpu_resources)
