"""Container images without a registry: one static busybox, packed as a docker archive."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Final

BUSYBOX: Final = "localhost/rig/busybox:1"
# The pause container, which only holds the namespaces of a pod.
PAUSE: Final = "localhost/rig/pause:1"

_LAYER: Final = "layer.tar"
_COMMANDS: Final = {BUSYBOX: ["/bin/sh"], PAUSE: ["/bin/sleep", "2147483647"]}


def write(archive: Path, busybox: Path) -> None:
    """Write both images to `archive`, for `ctr images import`."""
    layer = _layer(busybox)
    manifest = []
    with tarfile.open(archive, "w") as tar:
        _add(tar, _LAYER, layer)
        for number, (image, command) in enumerate(_COMMANDS.items()):
            config = f"config-{number}.json"
            _add(tar, config, json.dumps(_config(layer, command)).encode())
            manifest.append({"Config": config, "RepoTags": [image], "Layers": [_LAYER]})
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _layer(busybox: Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for folder in ("bin", "etc", "tmp"):
            _add(tar, folder, None)
        _add(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
        _add(tar, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
        for applet in _applets(busybox):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return data.getvalue()


def _applets(busybox: Path) -> list[str]:
    listed = subprocess.run((str(busybox), "--list"), check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split() if name != "busybox"]


def _config(layer: bytes, command: list[str]) -> dict[str, object]:
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }


def _add(tar: tarfile.TarFile, name: str, data: bytes | None, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    if data is None:
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        tar.addfile(entry)
    else:
        entry.size, entry.mode = len(data), mode
        tar.addfile(entry, io.BytesIO(data))
