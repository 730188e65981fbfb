"""Checks whether the scheduler of this container is alive: exit status 0, or 1 and the reason.

Container engines run it; Kubernetes asks the probes itself. It needs only Python, and asks at the
address in SLURM_POD_SCHEDULER_HEALTH_PROBE_BIND_ADDRESS, by default at port 8081.
"""

import http.client
import os
import sys

VARIABLE = "SLURM_POD_SCHEDULER_HEALTH_PROBE_BIND_ADDRESS"
ANSWER_SECONDS = 3.0


def main() -> int:
    """Ask /healthz once, and return the exit status."""
    host, _, port = os.environ.get(VARIABLE, ":8081").rpartition(":")
    at = host.strip("[]") or "127.0.0.1"
    connection = http.client.HTTPConnection(at, int(port), timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        print(f"no answer from {at}:{port}: {error}")
        return 1
    finally:
        connection.close()
    print(f"{status} from {at}:{port}")
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
