"""Logic regression among very many markers: ``python -m bench.logic [--markers 20000] [--rows 5000] [--seconds 60]``.

Three planted interactions of two and three leaves. It is to be run in a process of its own, for its memory, and prints
one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings

import numpy as np

import modejump
from bench.child import reset_mark, resident


def planted(markers: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Markers of zeros and ones, a response with three interactions and noise of variance 1, and their texts."""
    rng = np.random.default_rng(seed)
    x = np.empty((rows, markers), np.int8, order="F")
    for j, frequency in enumerate(rng.uniform(0.1, 0.5, markers)):
        x[:, j] = rng.random(rows) < frequency
    leaves = np.sort(rng.choice(markers, 8, replace=False))
    x[:, leaves] = rng.random((rows, 8)) < 0.4
    a, b, c, d, e, f, g, h = x[:, leaves].T.astype(bool)
    y = 0.6 * (a & b) + 0.6 * (c & (d | e)) - 0.8 * (f & g & ~h) + rng.normal(size=rows)
    names = [f"x{j}" for j in leaves]
    texts = ["{0} & {1}", "{2} & ({3} | {4})", "{5} & {6} & !{7}"]
    return x, y, [text.format(*names) for text in texts]


def main(arguments: list[str]) -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.logic")
    parser.add_argument("--markers", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    x, y, texts = planted(given.markers, given.rows, given.seed)
    reset_mark()
    begun = time.perf_counter()
    space = modejump.LogicSpace(leaves=3, size=10, population=30)
    # Fewer chains and less room for evaluated models than by default: they are the largest part of the memory.
    budget = modejump.Budget(seconds=given.seconds, memory=2**26)
    model = modejump.LogicRegressor(space=space, chains=8, budget=budget, n_jobs=given.workers, random_state=given.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    found = model.inclusion_["probability"]
    figures = {
        "markers": given.markers,
        "rows": given.rows,
        "seconds": round(time.perf_counter() - begun, 1),
        "peak_gib": round(resident("VmHWM") / 2**30, 3),
        "table_gib": round(x.nbytes / 2**30, 3),
        "planted": {text: round(float(found.get(text, 0.0)), 4) for text in texts},
        "others above 0.5": int((found > 0.5).sum()) - sum(bool(found.get(text, 0.0) > 0.5) for text in texts),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
