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

from modejump.core import progress

# Lines of progress that nobody asked for depend on the speed of the machine, and tests compare what is written.
progress.FIRST_LINE = float("inf")

# Plots are drawn without a screen.
os.environ.setdefault("MPLBACKEND", "Agg")

# A shell that runs the tests in the background has interrupts ignored, here and in processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run; no deadline, because the first call of a kernel compiles it.
hypothesis.settings.register_profile("house", derandomize=True, deadline=None)
hypothesis.settings.load_profile("house")

REFERENCE = Path(__file__).parent / "reference"
# Data too large for the repository.
LARGE = Path(__file__).resolve().parents[2] / "shared" / "data"


class Regression(NamedTuple):
    """A table split for regression: covariates, response, and the covariates' names."""

    X: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]


def read_large(name: str) -> pd.DataFrame:
    """A table that is not part of the repository, or a skip that names it."""
    path = LARGE / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"{name}.csv is not part of the repository: place it into ../shared/data to run this test")
    return pd.read_csv(path)


def split(frame: pd.DataFrame, target: str = "y") -> Regression:
    """A table as covariates, response, names."""
    covariates = frame.drop(columns=target)
    return Regression(
        np.ascontiguousarray(covariates.to_numpy(np.float64)),
        frame[target].to_numpy(np.float64),
        tuple(covariates.columns),
    )


def read_models(name: str) -> pd.DataFrame:
    """Models of another program; ``model`` is text such as "2 3 10 15"."""
    return pd.read_csv(REFERENCE / name, dtype={"model": str}).fillna({"model": ""})


@pytest.fixture(scope="session")
def crime() -> Regression:
    """US crime rates: 47 rows, 15 covariates."""
    return split(pd.read_csv(REFERENCE / "crime.csv"))


@pytest.fixture(scope="session")
def crime_models() -> pd.DataFrame:
    """Log marginal likelihoods of models of the crime data."""
    return read_models("crime_models.csv")


@pytest.fixture(scope="session")
def crime_pips() -> pd.DataFrame:
    """Exact inclusion probabilities of the crime data, one row for each prior and variable."""
    return pd.read_csv(REFERENCE / "crime_pips.csv")
