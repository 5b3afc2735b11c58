"""Where output goes: terminals of few characters, pipes whose reader has gone; and signals that end a command."""

from __future__ import annotations

import codecs
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

# How characters of our pages are spelt where they cannot be shown.
SPELT = {
    "±": "+-", "…": "...", "²": "^2", "³": "^3", "\N{NO-BREAK SPACE}": " ", "−": "-", "–": "-", "·": "*", "≥": ">=",
    "≤": "<=", "≠": "!=", "√": "sqrt", "∞": "inf", "π": "pi", "Φ": "Phi", "→": "->", "’": "'",
    "“": '"', "”": '"', "•": "*",
    "─": "-", "━": "-", "│": "|", "█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "#", "▍": "", "▎": "", "▏": "",
}  # fmt: skip
_HANDLER = "modejump.spelt"
# A process that a closed pipe ends has this status in a shell: 128 and the number of the signal.
CLOSED_PIPE = 141


def spelt(text: str) -> str:
    """A text in ASCII, where its other characters are those of our pages.

    Examples
    --------
    >>> spelt("0.50 ± 0.01")
    '0.50 +- 0.01'
    """
    return "".join(SPELT.get(c, c) for c in text)


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Spell what cannot be encoded; characters that are not ours, as in names of columns, are escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(SPELT.get(c, c.encode("ascii", "backslashreplace").decode()) for c in text), error.end


def adapt_output() -> None:
    """Let standard output and error spell what they cannot encode, instead of ending the program."""
    codecs.register_error(_HANDLER, _replace)
    for stream in (sys.stdout, sys.stderr):
        encoding = getattr(stream, "encoding", None) or "utf-8"
        if not encoding.lower().startswith("utf") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_HANDLER)


def flush_output() -> bool:
    """Bring standard output to its reader; False where that has gone, as ``head`` does."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        return False
    except (AttributeError, ValueError):
        pass
    return True


def discard_output() -> None:
    """Let nothing more be written to a reader that has gone, not even at the end of the program."""
    with suppress(OSError, AttributeError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def is_closed_pipe(error: BaseException) -> bool:
    """Whether an exit was caused by a closed pipe: Rich and Typer turn the one into the other."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, BrokenPipeError):
            return True
        found = found.__cause__ or found.__context__
    return False


@contextmanager
def catch_signals() -> Iterator[list[int]]:
    """Whoever ends a batch job or closes a terminal gets what Ctrl-C gives; the signals that came."""
    caught: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        caught.append(number)
        raise KeyboardInterrupt

    here = threading.current_thread() is threading.main_thread()
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if here and hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in (getattr(signal, name) for name in names)}
    # One that is ignored stays so: nohup asks for that.
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
