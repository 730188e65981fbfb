"""Fail where a locked dependency has a known vulnerability: `python .ci/audit.py LOCKFILE...`.

pip-audit asks the package index, by name and version. An index that has packages but no advisories
(a mirror) says nothing of either kind; that is told, and is no failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def main(lockfiles: list[str]) -> int:
    """Audit all of them; the exit status."""
    return max(map(audit, lockfiles))


def audit(lockfile: str) -> int:
    """Audit one; tells what was found, or that nothing could be."""
    command = (sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip")
    options = ("--format=json", "--progress-spinner=off", "--requirement", lockfile)
    # It ends with 1 where it has found something: its report says what.
    asked = subprocess.run((*command, *options), capture_output=True, text=True, check=False)
    if not asked.stdout:
        print(f"{lockfile}: not audited: {_last_line(asked.stderr)}", file=sys.stderr)
        return 1
    found, silent = verdict(json.loads(asked.stdout))
    for line in found:
        print(f"{lockfile}: {line}", file=sys.stderr)
    if silent:
        print(f"{lockfile}: the package index tells no advisories of {silent} packages")
    return 1 if found else 0


def verdict(report: dict[str, Any]) -> tuple[list[str], int]:
    """A line for each vulnerability in pip-audit's report, and how many packages it knows not."""
    packages = report["dependencies"]
    found = [
        f"{it['name']} {it['version']} has {flaw['id']}, mended in {_versions(flaw)}: make lock"
        for it in packages
        for flaw in it.get("vulns", ())
    ]
    return found, sum("skip_reason" in it for it in packages)


def _versions(flaw: dict[str, Any]) -> str:
    return ", ".join(flaw["fix_versions"]) or "no version yet"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["pip-audit said nothing"])[-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
