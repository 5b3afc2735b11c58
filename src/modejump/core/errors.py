"""Errors and warnings of the package. Imports nothing of it, so that every layer may import this."""

from __future__ import annotations

import sys
import warnings


class InputError(ValueError):
    """Data, an option or a file handed in cannot be used.

    The message is one sentence: what is wrong, where, and what to do about it. The command line prints it
    and exits with status 2.

    Examples
    --------
    >>> raise InputError("g must be positive, got -1: choose g > 0 or leave it out for g = n.")
    Traceback (most recent call last):
        ...
    modejump.core.errors.InputError: g must be positive, got -1: choose g > 0 or leave it out for g = n.
    """


class ModejumpWarning(UserWarning):
    """A result exists but deserves distrust, for instance when two estimates of one posterior disagree.

    Examples
    --------
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ModejumpWarning)  # such results are errors here
    ...     warn_user("the chains sit apart; run longer.")
    Traceback (most recent call last):
        ...
    modejump.core.errors.ModejumpWarning: the chains sit apart; run longer.
    """


class UnsavedWarning(ModejumpWarning):
    """What a long run should have written to the disk is not there, so its end would cost more."""


class InterruptedRun(Exception):
    """Interrupted by the user; the message says how to resume, where that is possible."""


def printable(text: str) -> str:
    r"""Text without characters that steer a terminal, as they may stand in names of columns.

    Examples
    --------
    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def warn_user(text: str) -> None:
    """Warn in the line of the user's that called the package."""
    level, frame = 2, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "modejump":
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(text, ModejumpWarning, stacklevel=level)
