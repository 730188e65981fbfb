"""Small pieces of slurmrestd's JSON: number triples, TRES strings, device indices."""

from typing import Any

from .hostlist import fold

Wire = dict[str, Any]


def number(value: float | None) -> Wire:
    """Return the set/infinite/number triple of a number; None means infinite."""
    if value is None:
        return {"set": False, "infinite": True, "number": 0}
    return {"set": True, "infinite": False, "number": int(value)}


def unset() -> Wire:
    """Return the triple of a number that is not set."""
    return {"set": False, "infinite": False, "number": 0}


def tres(cpus: int, memory_mib: int, nodes: int) -> str:
    """Return a TRES string such as ``cpu=4,mem=2G,node=1,billing=4``."""
    counted = f"node={nodes}," if nodes else ""
    return f"cpu={cpus},mem={memory(memory_mib)},{counted}billing={cpus}"


def memory(mebibytes: float) -> str:
    """Return memory as Slurm writes it: in a larger unit if it is a multiple of half that unit."""
    unit = 0
    while mebibytes >= 1024 and mebibytes % 512 == 0:
        mebibytes, unit = mebibytes / 1024, unit + 1
    return f"{mebibytes:.{0 if mebibytes == int(mebibytes) else 2}f}{'MGTP'[unit]}"


def indices(bits: int) -> str:
    """Return ``IDX:0-1,3`` for a bit set, ``IDX:N/A`` for the empty one."""
    numbers = [index for index in range(bits.bit_length()) if bits >> index & 1]
    return "IDX:" + (fold(f"x{n}" for n in numbers)[1:].strip("[]") if numbers else "N/A")
