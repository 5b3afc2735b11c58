"""Responses, offsets and weights that a family cannot have: one sentence at every door, from arrays to the shell."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from modejump import (
    BGLMClassifier,
    BGLMRegressor,
    BGNLMClassifier,
    BGNLMRegressor,
    Budget,
    InputError,
    Problem,
    Space,
    transforms,
)
from modejump.cli import main
from modejump.problem.feature_problem import feature_problem

ROWS = 24
COUNTS = np.arange(ROWS, dtype=float) % 5
NEGATIVE = np.where(np.arange(ROWS) == 3, -2.0, COUNTS)
FRACTION = np.where(np.arange(ROWS) == 4, 1.5, COUNTS)
POSITIVE = COUNTS + 1.0
ZERO = np.where(np.arange(ROWS) == 6, 0.0, POSITIVE)
COIN = np.arange(ROWS) % 2.0

# What is wrong: the family, the response, options of the fit, what the estimators say, and what arrays are told where
# that is something else.
MISTAKES: dict[str, tuple[str, Any, dict[str, Any], str, str]] = {
    "one class": ("binomial", np.ones(ROWS), {}, "y has one class only, 1", "y is constant"),
    "one class of positive weight": (
        "binomial", COIN, {"weights": COIN}, "y has one class only, 1", "y is constant",
    ),
    "negative counts": ("poisson", NEGATIVE, {}, "a Poisson response is a count, and y is -2 in row 3", ""),
    "fractional counts": ("poisson", FRACTION, {}, "a Poisson response is a count, and y is 1.5 in row 4", ""),
    "zeros under gamma": ("gamma", ZERO, {}, "a gamma response is positive, and y is 0 in row 6", ""),
    "negative amounts": ("gamma", -POSITIVE, {}, "a gamma response is positive, and y is -1 in row 0", ""),
    "no weight for classes": ("binomial", COIN, {"weights": np.zeros(ROWS)}, "sample_weight is zero everywhere", ""),
    "no weight for counts": ("poisson", COUNTS, {"weights": np.zeros(ROWS)}, "sample_weight is zero everywhere", ""),
    "no weight for amounts": ("gamma", POSITIVE, {"weights": np.zeros(ROWS)}, "sample_weight is zero everywhere", ""),
    "short weights": (
        "poisson", COUNTS, {"weights": np.ones(5)}, "sample_weight has shape (5,) but X has 24 rows", "",
    ),
    "short offset for classes": (
        "binomial", COIN, {"offset": np.zeros(5)}, "offset has shape (5,) but X has 24 rows", "",
    ),
    "short offset": (
        "poisson", COUNTS, {"offset": np.zeros(5)}, "offset has shape (5,) but X has 24 rows", "",
    ),
    "offset of two columns": (
        "gamma", POSITIVE, {"offset": np.zeros((ROWS, 2))}, "offset has shape (24, 2) but X", "",
    ),
    "offset with a hole": (
        "poisson", COUNTS, {"offset": np.where(COIN > 0, np.nan, 0.0)}, "offset is NaN or infinite in row 1",
        "",
    ),
}  # fmt: skip


def covariates() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(ROWS, 2))


def select(family: str, y: Any, weights: Any = None, offset: Any = None) -> Any:
    estimator = BGLMClassifier() if family == "binomial" else BGLMRegressor(family=family)
    return estimator.fit(covariates(), y, sample_weight=weights, offset=offset)


def search(family: str, y: Any, weights: Any = None, offset: Any = None) -> Any:
    budget = Budget(warmup=300, steps=300)
    kind: Callable[..., Any] = BGNLMClassifier if family == "binomial" else BGNLMRegressor
    more = {} if family == "binomial" else {"family": family}
    return kind(chains=1, budget=budget, **more).fit(covariates(), y, sample_weight=weights, offset=offset)


def problem(family: str, y: Any, **more: Any) -> Any:
    return Problem.build(covariates(), y, family=family, **more)


def features(family: str, y: Any, **more: Any) -> Any:
    return feature_problem(
        covariates(), y, ["a", "b"], transforms=[transforms["sin"]], space=Space(), family=family, **more
    )


DOORS: dict[str, Callable[..., Any]] = {"select": select, "search": search, "problem": problem, "features": features}
WHERE = [(door, mistake) for door in DOORS for mistake in MISTAKES]


@pytest.mark.parametrize(("door", "mistake"), WHERE)
def test_one_sentence_says_what_is_wrong(door: str, mistake: str) -> None:
    family, y, more, words, to_arrays = MISTAKES[mistake]
    with pytest.raises(InputError) as caught:
        DOORS[door](family, y, **more)
    text = str(caught.value)
    assert (to_arrays or words if door in ("problem", "features") else words) in text
    assert "\n" not in text and len(text) < 300 and text.endswith(".")


# A column has one entry for each row.
BY_COLUMN = [
    (door, mistake)
    for door, mistake in WHERE
    if door in ("select", "search") and all(np.shape(v) == (ROWS,) for v in MISTAKES[mistake][2].values())
]


@pytest.mark.parametrize(("door", "mistake"), BY_COLUMN)
def test_the_shell_says_it_in_one_line(door: str, mistake: str, tmp_path: Any, monkeypatch: Any, capsys: Any) -> None:
    family, y, more, words, _ = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(covariates(), columns=["a", "b"]).assign(y=y, **more)
    frame.to_csv("data.csv", index=False)
    line = f"fit data.csv --target y --family {family}"
    line += " --transforms sin --chains 1 --steps 300" if door == "search" else ""
    line += "".join(f" --{name} {name}" for name in more)
    # Lines are those of the file, whose first one is the header.
    words = re.sub(r"in row (\d+)", lambda found: f"in line {int(found[1]) + 2}", words)
    words = words.replace("sample_weight", "--weights").replace("offset is NaN or infinite", "'offset' is empty")
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err
    assert err.startswith("modejump: ") and err.count("\n") == 1


@pytest.mark.parametrize(("family", "y", "allowed"), [("poisson", NEGATIVE, COUNTS), ("gamma", ZERO, POSITIVE)])
def test_rows_of_no_weight_may_have_any_response(family: str, y: np.ndarray, allowed: np.ndarray) -> None:
    weights = (y == allowed).astype(float)
    with_row, without = (select(family, response, weights) for response in (y, allowed))
    pd.testing.assert_frame_equal(with_row.inclusion_, without.inclusion_)


def test_labels_of_one_class_may_be_text(tmp_path: Any, monkeypatch: Any, capsys: Any):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(covariates(), columns=["a", "b"]).assign(y="yes").to_csv("data.csv", index=False)
    for more in ("", " --transforms sin"):
        assert main(f"fit data.csv --target y --family binomial{more}".split()) == 2
        assert "y has one class only, 'yes', so there is nothing to tell apart" in capsys.readouterr().err
    with pytest.raises(InputError, match="one class only, 'yes'"):
        select("binomial", pd.read_csv(io.StringIO("y\n" + "yes\n" * ROWS))["y"])
