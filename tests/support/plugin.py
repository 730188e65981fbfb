"""Calls `kubectl slurm` as people do: a process with the cluster's kubeconfig."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.world import World

_ROOT: Final = Path(__file__).parents[2]
_SECONDS: Final = 120.0


async def plugin(world: World, command: str, *words: str) -> str:
    """What the command prints about the story's namespace; asserts that it succeeds and says
    nothing else.
    """
    out, said = await plugin_and_remarks(world, command, *words)
    assert said == ""
    return out


async def plugin_and_remarks(world: World, command: str, *words: str) -> tuple[str, str]:
    """What the command prints, and what it says on standard error; asserts that it succeeds."""
    program = "from scheduler.__main__ import plugin; raise SystemExit(plugin())"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, command, f"--namespace={world.namespace}", *words),
        cwd=_ROOT,
        env=os.environ | {"KUBECONFIG": str(world.cluster.kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode == 0, err
    return out.decode(), err.decode()
