"""The errors of slurmctld and slurmrestd, with their numbers and texts.

Measured on Slurm 26.05.5 and 24.11.5. slurmrestd derives the HTTP status from the number, and
differently in each release: 24.11 answers 500 where 26.05 answers 422. Therefore ``http_status``
knows the statuses, and the table of texts does not.
"""

from typing import Final

from .config import Release

TEXTS: Final[dict[int, str]] = {
    -1: "Unspecified error",
    0: "No error",
    1: "Operation not permitted",
    11: "Resource temporarily unavailable",
    1000: "Unexpected message received",
    1007: "Protocol authentication error",
    1800: "Unable to contact slurm controller (connect failure)",
    2000: "Invalid partition name specified",
    2002: "Access/permission denied",
    2007: "MaxJobCount limit reached",
    2009: "Job script not specified",
    2010: "Invalid user id",
    2012: "Pathname of a file, directory or other parameter too long",
    2014: "Requested node configuration is not available",
    2016: "Requested nodes are busy",
    2017: "Invalid job id specified",
    2018: "Invalid node name specified",
    2019: "I/O error writing script/environment to file",
    2020: "Job can not be altered now, try again later",
    2021: "Job/step already completing or completed",
    2025: "Task count specification invalid",
    2028: "Invalid node state specified",
    2029: "Invalid feature specification",
    2036: "Requested operation not supported on this system",
    2038: "Job dependency problem",
    2039: "Only batch jobs are accepted or processed",
    2042: "Job is in held state, pending scheduler release",
    2045: "Invalid account or account/partition combination specified",
    2048: "Invalid license specification",
    2051: "Requested time limit is invalid (missing or exceeds some limit)",
    2053: "Requested reservation is invalid",
    2063: "Job cannot be submitted without the current working directory specified.",
    2066: "Invalid qos specification",
    2070: "Required partition not available (inactive or drain)",
    2072: "Invalid generic resource (gres) specification",
    2073: "Job is no longer pending execution",
    2081: "Invalid job array specification",
    2084: "Job has already finished",
    2115: "Invalid Trackable RESource (TRES) specification",
    2119: "Invalid GRES specification (with and without type identification)",
    2123: "Invalid --nice value",
    2127: "Environment is missing in job",
    2133: "Invalid preferred feature specification",
    2137: "JobID can not be zero",
    2163: "Invalid group ID",
    2166: "Unable to resolve user ID to user name",
    2173: "Invalid signal jobs request, at least one job id or filter is required.",
    2180: "Invalid node state transition",
    2189: "Invalid configuration for external job",
    6010: "Rejecting authentication of user nobody or group nobody",
    9000: "Query empty or not RFC7320 compliant",
    9202: "Unable to convert Data type",
    9207: "Data parser unable to parse invalid flag",
    9208: "Data parser expected a list",
    9209: "Data parser expected a dictionary or object",
}

_EVERYWHERE: Final = {0: 200, 1007: 511, 1800: 502, 2017: 404, 9000: 422}
_SERVER_FAULTS_26: Final = frozenset({-1, 11, 1000, 2019, 2189, 6010, 9202, 9207, 9208, 9209})


class SlurmError(Exception):
    """An error with Slurm's number; ``text`` is Slurm's text for that number.

    ``description`` and ``source`` replace those of the operation that failed. ``source`` names the
    field or the call that refused.
    """

    def __init__(self, number: int, description: str = "", *, source: str = "") -> None:
        super().__init__(f"{number} {TEXTS[number]}")
        self.number = number
        self.description = description
        self.source = source

    @property
    def text(self) -> str:
        """Slurm's own text for the number."""
        return TEXTS[self.number]


def http_status(number: int, release: Release) -> int:
    """Return the HTTP status that slurmrestd of that release sends with an error number."""
    if number in _EVERYWHERE:
        return _EVERYWHERE[number]
    if release is Release.V24_11 or number in _SERVER_FAULTS_26:
        return 500
    return 403 if number == 1 else 422
