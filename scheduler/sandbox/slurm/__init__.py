"""A model of slurmctld and slurmrestd: it schedules jobs and answers as the measured servers did.

    model = SlurmModel(SlurmConfig(nodes=(...), partitions=(...)))
    server = SlurmServer(model)
    port = await server.start(port=0)
    token = mint_token(model.key, "root")

It imports nothing from the scheduler: the two communicate only over HTTP.
"""

from .config import (
    DEFAULT_QOS,
    AccountConfig,
    Gres,
    NodeConfig,
    PartitionConfig,
    QosConfig,
    Release,
    ReservationConfig,
    SlurmConfig,
    Timing,
)
from .model import SlurmModel
from .plugins import Verdict
from .server import SlurmServer
from .tokens import mint_token

__all__ = [
    "DEFAULT_QOS",
    "AccountConfig",
    "Gres",
    "NodeConfig",
    "PartitionConfig",
    "QosConfig",
    "Release",
    "ReservationConfig",
    "SlurmConfig",
    "SlurmModel",
    "SlurmServer",
    "Timing",
    "Verdict",
    "mint_token",
]
