"""Prints the image's bill of materials: the Python packages and the packages of the base image.

It reads a CycloneDX document of this Python environment, adds our own version, the interpreter and,
if the base has dpkg, the packages of dpkg, and prints the result as JSON. It needs only Python.
"""

import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

_PACKAGES = ("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\n")


def main() -> None:
    """Complete the document whose path is the first argument, and print it."""
    document = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    about = document["metadata"]["component"]
    about["version"] = importlib.metadata.version(about["name"])
    about["purl"] = f"pkg:pypi/{about['name']}@{about['version']}"
    document["components"] += [interpreter(), *packages()]
    json.dump(document, sys.stdout, indent=1, sort_keys=True)


def interpreter() -> dict[str, Any]:
    """The component of Python itself, which the official images build from source."""
    version = platform.python_version()
    return component("platform", "python", version, purl=f"pkg:generic/python@{version}")


def packages() -> list[dict[str, Any]]:
    """The components that dpkg has installed; empty if the base has no dpkg."""
    if shutil.which("dpkg-query") is None:
        return []
    listed = subprocess.run(_PACKAGES, check=True, capture_output=True, text=True)
    system = platform.freedesktop_os_release()
    rows = (line.split("\t") for line in listed.stdout.splitlines())
    return [
        component("library", name, version, purl=deb(name, version, architecture, system))
        for name, version, architecture in rows
    ]


def deb(name: str, version: str, architecture: str, system: dict[str, str]) -> str:
    """The package URL of a Debian package."""
    distro = f"{system['ID']}-{system.get('VERSION_ID', 'unknown')}"
    quoted = version.replace("+", "%2B").replace(":", "%3A")
    return f"pkg:deb/{system['ID']}/{name}@{quoted}?arch={architecture}&distro={distro}"


def component(kind: str, name: str, version: str, *, purl: str) -> dict[str, Any]:
    """A component of a CycloneDX document."""
    return {"type": kind, "name": name, "version": version, "bom-ref": purl, "purl": purl}


if __name__ == "__main__":
    main()
