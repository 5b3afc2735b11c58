"""The table of problems. Every one is Gaussian with a g-prior and the uniform prior over its models.

Data that are too large for the repository are read from the folder ``../shared/data``, and rows that want them say so
where it is missing.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bench.measure import Missing
from modejump.priors.coefficients import GPrior
from modejump.priors.models import UniformPrior
from modejump.problem.problem import Problem

ROOT = Path(__file__).resolve().parents[1]
LARGE = ROOT.parent / "shared" / "data"


@dataclass(frozen=True, eq=False)
class Case:
    """Data and prior of a problem, as every program gets them."""

    name: str
    x: np.ndarray
    y: np.ndarray
    g: float

    @property
    def terms(self) -> int:
        """Number of candidate terms, one a column."""
        return self.x.shape[1]

    @cached_property
    def problem(self) -> Problem:
        """The same as this package's own problem; made once, apart from every measurement."""
        return Problem.build(self.x, self.y, coef_prior=GPrior(g=self.g), model_prior=UniformPrior())

    @cached_property
    def correlations(self) -> tuple[np.ndarray, np.ndarray]:
        """Correlations among the columns, and of the columns with the response."""
        z = self.x - self.x.mean(axis=0)
        z /= np.linalg.norm(z, axis=0)
        r = self.y - self.y.mean()
        return z.T @ z, z.T @ (r / np.linalg.norm(r))


def gauss(terms: int = 20, rows: int = 223) -> Case:
    """Independent columns; effects from strong to doubtful, so that models of 5 to 10 terms hold the mass."""
    rng = np.random.default_rng(20)
    x = rng.standard_normal((rows, terms))
    effects = np.zeros(terms)
    strong = np.array([0.8, 0.5, 0.4, 0.3, 0.25, 0.2, 0.18, 0.15])[:terms]
    effects[: len(strong)] = strong
    y = x @ effects + rng.standard_normal(rows)
    return Case(f"gauss{terms}", x, y, float(rows))


def twins(terms: int = 20, rows: int = 223, correlation: float = 0.995) -> Case:
    """The problem ``gauss`` seen through two near copies of its first column, each as good as the other."""
    base = gauss(terms, rows)
    rng = np.random.default_rng(995)
    x = base.x.copy()
    for j in (0, terms - 1):
        x[:, j] = np.sqrt(correlation) * base.x[:, 0] + np.sqrt(1.0 - correlation) * rng.standard_normal(rows)
    return Case(f"twins{terms}", x, base.y, float(rows))


def wide(terms: int = 5000, rows: int = 10_000) -> Case:
    """Many columns and rows, ten effects: what a fit costs in memory."""
    rng = np.random.default_rng(5000)
    x = rng.standard_normal((rows, terms))
    y = x[:, :10].sum(axis=1) + rng.standard_normal(rows)
    return Case(f"wide{terms}", x, y, float(rows))


def crime() -> Case:
    """US crime rates: 47 rows, 15 columns, g = 47."""
    return _read(ROOT / "tests" / "reference" / "crime.csv", 47.0)


def protein() -> Case:
    """Protein activity: 96 rows, 88 columns, many of them nearly collinear, g = 96."""
    return _read(large("protein"), 96.0)


def large(name: str) -> Path:
    """A table that is not part of the repository."""
    path = LARGE / f"{name}.csv"
    if not path.exists():
        raise Missing(f"{name}.csv is not part of the repository: place it into ../shared/data to run this row.")
    return path


def _read(path: Path, g: float) -> Case:
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    values = np.array(rows, dtype=np.float64)
    response = header.index("y")
    return Case(path.stem, np.delete(values, response, axis=1), values[:, response].copy(), g)


PROBLEMS: dict[str, Callable[[], Case]] = {
    "crime": crime,
    "protein": protein,
    "gauss20": gauss,
    "twins20": twins,
    "wide": wide,
}
