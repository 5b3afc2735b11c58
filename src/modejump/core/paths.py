"""Files of a directory that somebody else may have made: no link is followed, only plain files are opened."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from modejump.core.errors import InputError

# Opening a pipe would wait for its other end; systems without these flags have no such files in the way.
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_plain(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file and return its descriptor; InputError for a link, a pipe, a device or a directory."""
    check_plain(path)
    descriptor = os.open(path, flags | _FLAGS, mode)
    # It may have been exchanged since.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_plain(path)
    return descriptor


def check_plain(path: Path) -> None:
    """Raise InputError where something else than a plain file is in the way."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise _not_plain(path)


def read_plain(path: Path) -> bytes:
    """Contents of a plain file."""
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        return file.read()


def _not_plain(path: Path) -> InputError:
    return InputError(f"{path} is not a plain file, and links are not followed; remove it, or use another directory.")
