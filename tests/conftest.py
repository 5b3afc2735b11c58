"""Data that tests share. A test that needs random numbers makes its own ``np.random.default_rng(number)``."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

import hypothesis
import numpy as np
import pandas as pd
import pytest

# Plots are drawn without a screen.
os.environ.setdefault("MPLBACKEND", "Agg")

# A shell that runs the tests in the background has interrupts ignored, here and in processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run; no deadline, because the first call of a kernel compiles it.
hypothesis.settings.register_profile("house", derandomize=True, deadline=None)
hypothesis.settings.load_profile("house")

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


class Regression(NamedTuple):
    """A table split for regression: covariates, response, and the covariates' names."""

    X: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]


def read_frame(path: Path, **options: object) -> pd.DataFrame:
    """A table from the shared folder, or a skip that names the missing file."""
    if not path.exists():
        pytest.skip(f"{path.parent.name}/{path.name} is missing from the shared folder beside the repository")
    return pd.read_csv(path, **options)


def read_regression(path: Path, target: str = "y") -> Regression:
    """A table from the shared folder as covariates, response, names."""
    frame = read_frame(path)
    covariates = frame.drop(columns=target)
    return Regression(
        np.ascontiguousarray(covariates.to_numpy(np.float64)),
        frame[target].to_numpy(np.float64),
        tuple(covariates.columns),
    )


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the repository, which is not part of it."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared (reference data, seen from the repository's root) is missing")
    return SHARED


@pytest.fixture(scope="session")
def crime(shared: Path) -> Regression:
    """US crime rates: 47 rows, 15 covariates."""
    return read_regression(shared / "data" / "crime.csv")


@pytest.fixture(scope="session")
def protein(shared: Path) -> Regression:
    """Protein activity: 96 rows, 88 covariates, many of them nearly collinear."""
    return read_regression(shared / "data" / "protein.csv")


@pytest.fixture(scope="session")
def crime_models(shared: Path) -> pd.DataFrame:
    """Log marginal likelihoods of models of the crime data; ``model`` is text such as "2 3 10 15"."""
    frame = read_frame(shared / "reference" / "crime_models.csv", dtype={"model": str})
    return frame.assign(model=frame["model"].fillna(""))


@pytest.fixture(scope="session")
def crime_pips(shared: Path) -> pd.DataFrame:
    """Exact inclusion probabilities of the crime data, one row for each prior and variable."""
    return read_frame(shared / "reference" / "crime_pips.csv")
