"""An asyncio client for slurmrestd, Slurm 24.11 to 26.05; knows nothing of Kubernetes."""

from groundwork.hostlist import HostlistError
from slurmapi.client import SlurmClient
from slurmapi.errors import (
    SlurmBusy,
    SlurmDenied,
    SlurmError,
    SlurmFenced,
    SlurmGarbled,
    SlurmInterrupted,
    SlurmInvalid,
    SlurmNoApi,
    SlurmNoSuchJob,
    SlurmNoToken,
    SlurmRefused,
    SlurmStranger,
    SlurmUnreachable,
    SlurmUnreadable,
    is_word_of_slurm,
)
from slurmapi.hostlist import expand as expand_hostlist
from slurmapi.http1 import Request, Response
from slurmapi.model import (
    BaseState,
    Call,
    Job,
    JobState,
    ListedJob,
    Partition,
    Ping,
    SlurmConfig,
    SlurmNode,
    Submitted,
)
from slurmapi.submission import JobSubmission
from slurmapi.tokens import FileToken, StaticToken, TokenSource
from slurmapi.transport import Deadlines, HttpTransport, check_base_url
from slurmapi.versions import KNOWN_VERSIONS, ApiVersion

__all__ = [
    "KNOWN_VERSIONS",
    "ApiVersion",
    "BaseState",
    "Call",
    "Deadlines",
    "FileToken",
    "HostlistError",
    "HttpTransport",
    "Job",
    "JobState",
    "JobSubmission",
    "ListedJob",
    "Partition",
    "Ping",
    "Request",
    "Response",
    "SlurmBusy",
    "SlurmClient",
    "SlurmConfig",
    "SlurmDenied",
    "SlurmError",
    "SlurmFenced",
    "SlurmGarbled",
    "SlurmInterrupted",
    "SlurmInvalid",
    "SlurmNoApi",
    "SlurmNoSuchJob",
    "SlurmNoToken",
    "SlurmNode",
    "SlurmRefused",
    "SlurmStranger",
    "SlurmUnreachable",
    "SlurmUnreadable",
    "StaticToken",
    "Submitted",
    "TokenSource",
    "check_base_url",
    "expand_hostlist",
    "is_word_of_slurm",
]
