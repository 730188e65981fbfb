"""Fail where a locked dependency has a known vulnerability: `python .ci/audit.py LOCKFILE...`.

pip-audit asks the package index, by name and version. An index that has packages but no advisories
(a mirror), or that cannot be reached, is no failure; but the last line says how many packages were
audited, and "NOT AUDITED" where there are any of which nothing is known.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """A line for each vulnerability, and of how many packages anything, or nothing, is known."""

    found: tuple[str, ...] = ()
    audited: int = 0
    silent: int = 0

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(
            self.found + other.found, self.audited + other.audited, self.silent + other.silent
        )

    @property
    def summary(self) -> str:
        """In one line."""
        if not self.audited:
            return (
                "NOT AUDITED: no advisories could be asked for, so nothing is known of any package"
            )
        told = f"{self.audited} packages audited, {len(self.found)} vulnerabilities"
        rest = f"; NOT AUDITED: {self.silent} packages without advisories"
        return told + (rest if self.silent else "")


def main(lockfiles: list[str]) -> int:
    """Audit all of them; the exit status."""
    total = sum(map(audit, lockfiles), Verdict())
    for line in total.found:
        print(line, file=sys.stderr)
    print(f"audit of dependencies: {total.summary}", file=sys.stderr)
    return 1 if total.found else 0


def audit(lockfile: str) -> Verdict:
    """Audit one."""
    command = (sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip")
    options = ("--format=json", "--progress-spinner=off", "--requirement", lockfile)
    # It ends with 1 where it has found something: its report says what.
    asked = subprocess.run((*command, *options), capture_output=True, text=True, check=False)
    if not asked.stdout:
        print(f"{lockfile}: not audited: {_last_line(asked.stderr)}", file=sys.stderr)
        return Verdict(silent=1)
    return verdict(lockfile, json.loads(asked.stdout))


def verdict(lockfile: str, report: dict[str, Any]) -> Verdict:
    """What pip-audit's report says."""
    packages = report["dependencies"]
    found = tuple(
        f"{lockfile}: {it['name']} {it['version']} has {flaw['id']}, mended in {_versions(flaw)}: "
        "make lock"
        for it in packages
        for flaw in it.get("vulns", ())
    )
    silent = sum("skip_reason" in it for it in packages)
    return Verdict(found, audited=len(packages) - silent, silent=silent)


def _versions(flaw: dict[str, Any]) -> str:
    return ", ".join(flaw["fix_versions"]) or "no version yet"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["pip-audit said nothing"])[-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
