"""Memory that is free, so that work which cannot fit is refused before it begins."""

from __future__ import annotations

import os
from pathlib import Path

from modejump.core.errors import InputError

_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def free_memory() -> float:
    """Bytes that this process may still take: of the machine, and of its container; infinite where nobody says."""
    free = float("inf")
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            free = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for limit, used in _LIMITS:
        try:
            # A container counts files that were read as used, and gives them up when memory is wanted.
            cached = _cached(Path(used).parent / "memory.stat")
            free = min(free, int(Path(limit).read_text()) - int(Path(used).read_text()) + cached)
        except (OSError, ValueError):
            continue
    return free


def _cached(path: Path) -> int:
    lines = path.read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("inactive_file ", "total_inactive_file ")))


def need_memory(size: float, what: str, instead: str) -> None:
    """Refuse work for which there is not enough memory; ``what`` begins the sentence that says so and ``instead`` ends
    it.
    """
    free = free_memory()
    if size > free:
        raise InputError(
            f"{what} need {size / 2**30:.1f} GiB of memory, and {max(free, 0.0) / 2**30:.1f} GiB are free; {instead}."
        )
