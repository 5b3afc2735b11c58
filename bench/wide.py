"""Selection among very many columns: ``python -m bench.wide 20000`` (columns), ``python -m bench.wide genotypes``.

Each case is to be run in a process of its own, for its memory. It prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from typing import Any

import numpy as np

import modejump
from bench.child import reset_mark, resident

# Reported columns are right where they are correlated with one that has an effect by at least so much.
RIGHT = 0.5
FDR = 0.1


def correlated(columns: int, rows: int = 300, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbours correlated 0.5, ten effects from 0.3 to 1, and noise of variance 1: lines, response, places."""
    rng = np.random.default_rng(seed)
    x = np.empty((columns, rows))
    x[0] = rng.standard_normal(rows)
    for j in range(1, columns):
        x[j] = 0.5 * x[j - 1] + np.sqrt(0.75) * rng.standard_normal(rows)
    places = np.arange(10) * (columns // 10) + 5
    return x, x[places].T @ np.linspace(0.3, 1.0, 10) + rng.standard_normal(rows), places


def genotypes(
    columns: int = 100_000, rows: int = 2_000, causal: int = 20, seed: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts 0, 1, 2 of an allele in blocks of linked markers; effects that alone have z from 3 to 10."""
    rng = np.random.default_rng(seed)
    x = np.empty((columns, rows), np.int8)
    frequency = rng.uniform(0.05, 0.5, columns)
    from scipy.stats import norm

    cut = norm.isf(frequency)
    before = rng.standard_normal((2, rows))
    for j in range(columns):
        # A new block every hundred markers.
        link = 0.0 if j % 100 == 0 else 0.9
        before = link * before + np.sqrt(1.0 - link**2) * rng.standard_normal((2, rows))
        x[j] = (before > cut[j]).sum(axis=0)
    places = np.sort(rng.choice(columns // 100, causal, replace=False)) * 100 + rng.integers(0, 100, causal)
    signal = np.zeros(rows)
    for z, j in zip(rng.permutation(np.linspace(3.0, 10.0, causal)), places, strict=True):
        signal += z / np.sqrt(rows) * (x[j] - x[j].mean()) / x[j].std()
    return x, signal + rng.standard_normal(rows), places


def fit(x: np.ndarray, y: np.ndarray, seed: int, steps: int, workers: int) -> tuple[Any, dict[str, float]]:
    """A fit, and what it took: seconds, and bytes beyond the table; the kernels are loaded before."""
    model = modejump.BGLMRegressor(
        algorithm="rgmjmcmc", budget=modejump.Budget(steps=500), random_state=seed, n_jobs=workers, progress=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x[:50].T, y)
        reset_mark()
        before, begun = resident("VmRSS"), time.perf_counter()
        model.set_params(budget=modejump.Budget(steps=steps)).fit(x.T, y)
    table = model.inclusion_
    above = table[table["probability"] > 0.05]
    seconds, most = time.perf_counter() - begun, resident("VmHWM") - before
    result = model.posterior_.result
    return model, {
        "seconds": round(seconds, 1),
        "warmup_seconds": round(result.warmup_seconds, 1),
        "sampling_seconds": round(result.seconds, 1),
        "beyond_table_gib": round(most / 2**30, 3),
        "above_0.05": len(above),
        "largest_r_hat": round(float(above["r_hat"].max()), 4),
        "largest_mcse": round(float(above["mcse"].max()), 4),
    }


def power(x: np.ndarray, score: np.ndarray, places: np.ndarray) -> dict[str, float]:
    """Share of the effects that are met before more than a share FDR of what is reported is wrong, best first.

    ``exact`` counts the columns themselves; ``linked`` any column that is correlated with one of them, once for each.
    """
    z = x[places].astype(np.float64)
    z = (z - z.mean(axis=1, keepdims=True)) / z.std(axis=1, keepdims=True)
    best = {"exact": 0.0, "linked": 0.0}
    met: dict[str, set[int]] = {"exact": set(), "linked": set()}
    wrong = {"exact": 0, "linked": 0}
    order = [int(j) for j in np.argsort(-score, kind="stable")[:2_000] if score[j] > 0.0]
    for reported, j in enumerate(order, start=1):
        column = x[j].astype(np.float64)
        r = np.abs(z @ (column - column.mean())) / (len(column) * column.std())
        hits = {"exact": np.flatnonzero(places == j), "linked": np.flatnonzero(r >= RIGHT)}
        for kind, hit in hits.items():
            met[kind] |= set(hit.tolist())
            wrong[kind] += not len(hit)
            if wrong[kind] / reported <= FDR:
                best[kind] = max(best[kind], len(met[kind]) / len(places))
    return best


def lasso_scores(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The penalty at which each column enters scikit-learn's lasso path; zero where it never does."""
    from sklearn.linear_model import lasso_path

    z = np.asfortranarray(x.T, dtype=np.float64)
    z -= z.mean(axis=0)
    z /= z.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alphas, coef, _ = lasso_path(z, y - y.mean(), eps=0.25, n_alphas=60)
    inside = coef != 0.0
    return np.where(inside.any(axis=1), alphas[np.argmax(inside, axis=1)], 0.0)


def marginal_scores(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared correlation of each column with the response."""
    r = y - y.mean()
    score = np.empty(len(x))
    for start in range(0, len(x), 4096):
        block = x[start : start + 4096].astype(np.float64)
        block -= block.mean(axis=1, keepdims=True)
        score[start : start + 4096] = (block @ r) ** 2 / (block**2).sum(axis=1)
    return score


def main(arguments: list[str]) -> None:
    """Measure one case."""
    parser = argparse.ArgumentParser(prog="python -m bench.wide")
    parser.add_argument("case", help="a number of columns, or 'genotypes'")
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--columns", type=int, default=100_000, help="of genotypes")
    parser.add_argument("--data", type=int, default=1, help="seed of the data")
    parser.add_argument("--no-lasso", action="store_true")
    given = parser.parse_args(arguments)
    linked = given.case == "genotypes"
    x, y, places = genotypes(given.columns, seed=given.data) if linked else correlated(int(given.case), seed=given.data)
    figures: dict[str, Any] = {"case": given.case, "data": given.data, "table_gib": round(x.nbytes / 2**30, 3)}
    tables = []
    for seed in given.seeds:
        model, took = fit(x, y, seed, given.steps, given.workers)
        figures[f"seed {seed}"] = took
        tables.append(model.inclusion_["probability"])
        if linked:
            figures[f"power of seed {seed}"] = power(x, model.posterior_.result.rao_blackwell, places)
    if len(tables) > 1:
        one, other = tables[0].align(tables[1], fill_value=0.0)
        shown = np.maximum(one, other) > 0.2
        figures["largest difference above 0.2"] = round(float((one - other).abs()[shown].max()), 4)
    if linked:
        figures["power of marginal tests"] = power(x, marginal_scores(x, y), places)
        if not given.no_lasso:
            begun = time.perf_counter()
            figures["power of lasso"] = power(x, lasso_scores(x, y), places)
            figures["lasso seconds"] = round(time.perf_counter() - begun, 1)
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
