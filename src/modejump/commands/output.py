"""What commands write beside their page: JSON, CSV and pictures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from modejump.commands.files import STANDARD
from modejump.core.errors import InputError
from modejump.estimators.questions.exports import plain
from modejump.estimators.questions.probabilities import MODELS_SHOWN
from modejump.runtime.files import whole_file


def check_json(path: Path | None) -> None:
    """Refuse a file of JSON that could not be written before the work, and not after it."""
    if path is not None and path != STANDARD:
        _check_place(path, "--json")


def check_plot(path: Path | None) -> None:
    """Refuse a plot that could not be written before the work, and not after it."""
    if path is None:
        return
    from modejump.plots.style import import_pyplot

    kinds = import_pyplot().Figure().canvas.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in kinds:
        raise InputError(f"--plot {path} has no picture format; end it with .png, .svg or .pdf.")
    _check_place(path, "--plot")


def _check_place(path: Path, option: str) -> None:
    if path.is_dir():
        raise InputError(f"{option} {path} is a directory; give the name of a file.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{option} {path} lies in a directory that does not exist; make it first.")


def write_text(text: str, path: Path | None) -> None:
    """Write to a file, which appears when it is whole, or to standard output; data are never respelt there.

    Parameters
    ----------
    text : str
        What to write.
    path : path, optional
        The file; None or ``-`` for standard output.
    """
    if path is not None and path != STANDARD:
        with output_file(path) as file:
            file.write(text.encode())
        return
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError as error:
        shown = ascii(text[error.start])
        raise InputError(
            f"standard output is {sys.stdout.encoding} and cannot hold {shown}; set PYTHONIOENCODING=utf-8, or write "
            "to a file."
        ) from None
    sys.stdout.write(text)


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """A file that appears when it is whole; a device or a pipe is written to as it is.

    Parameters
    ----------
    path : path
        The file; a link is followed.
    """
    try:
        with whole_file(path.resolve()) if path.is_file() or not path.exists() else path.open("wb") as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"the file {path} cannot be written: {error.strerror or error}.") from None


def write_json(content: Any, path: Path) -> None:
    """Write as JSON; numbers that are not finite become null.

    Parameters
    ----------
    content : object
        Mappings, sequences, frames, numbers and texts.
    path : path
        The file; ``-`` for standard output.
    """
    write_text(json.dumps(plain(content), indent=1, allow_nan=False) + "\n", path)


def posterior_content(estimator: Any, title: str) -> dict[str, Any]:
    """What is said about a posterior as JSON.

    Parameters
    ----------
    estimator : estimator
        A fitted one.
    title : str
        What the fit is about.
    """
    return {"title": title} | json.loads(estimator.to_json(models=MODELS_SHOWN))


def draw(estimator: Any, path: Path) -> None:
    """Draw the inclusion probabilities; of laws, beside them, complexity against error.

    Parameters
    ----------
    estimator : estimator
        A fitted one.
    path : path
        File of the picture.
    """
    from modejump.plots import plot_inclusion, plot_law_table
    from modejump.plots.style import import_pyplot

    pyplot = import_pyplot()
    laws = hasattr(estimator, "law_table")
    height = 1.0 + 0.35 * min(10, len(estimator.inclusion_))
    with pyplot.ioff():
        figure, axes = pyplot.subplots(
            1,
            1 + laws,
            figsize=(12.0, max(4.0, height)) if laws else (7.0, height),
            layout="constrained",
            squeeze=False,
        )
    plot_inclusion(estimator, ax=axes[0, 0])
    if laws:
        plot_law_table(estimator, ax=axes[0, 1])
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
