"""Locks of directories, which go with the process that holds them, however that ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TextIO

from modejump.core.errors import InputError


def locked_file(path: Path) -> TextIO:
    """The lock of a directory, open and held."""
    while True:
        file = open(path, "a+", encoding="utf-8")
        if not _try_lock(file):
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise InputError(f"process {holder} is at work in {path.parent}; wait for it, or end it first.")
        # The process before may have removed the file after it was opened here: then the lock is on nothing.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


def _try_lock(file: Any) -> bool:
    """Lock an open file for this process; False where another one has."""
    try:
        import fcntl
    except ImportError:
        import msvcrt

        file.seek(1 << 20)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
