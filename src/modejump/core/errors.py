"""Errors and warnings of the package. Imports nothing, so that every layer may import it."""


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
    """A result exists but deserves distrust, for instance when two estimates of one posterior disagree."""


class UnsavedWarning(ModejumpWarning):
    """What a long run should have kept on the disk is not there, so that an end of the run would cost more."""


class InterruptedRun(Exception):
    """The user wanted no more before the work was done; the message says how to go on, where that is possible."""
