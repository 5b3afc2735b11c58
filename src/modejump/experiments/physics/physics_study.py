"""How often textbook laws are recovered, with and without noise, beside other programs with the same time."""

from __future__ import annotations

import gc
import hashlib
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import ModejumpWarning
from modejump.experiments.ledger import Cell, Outcome, Rows, run_key, run_seed
from modejump.experiments.physics.peers import search_by
from modejump.experiments.physics.recovery import LEAST, Formula, left_by_features
from modejump.experiments.physics_laws import PHYSICS_LAWS, ROWS, TextbookLaw, simulate_law

OURS = "modejump"
NOISES = (0.0, 0.01, 0.05)
# Rows without noise that tell whether a law was recovered.
CHECK_ROWS = 500
# Models that may hold posterior probability of the law: the leading ones, above this probability.
MOST_MODELS, LEAST_PROBABILITY = 50, 1e-3


@dataclass(frozen=True, eq=False)
class PhysicsStudy:
    """Laws, noises and programs, and the time of each run."""

    laws: Sequence[str]  # names of textbook laws
    noises: Sequence[float]  # standard deviations of the noise, as shares of that of the response
    methods: Sequence[str]  # "modejump", and names of peers
    runs: int  # tables drawn of each law and noise
    seconds: float  # time of each search
    seed: int  # seed of the first run; the next ones count upwards
    workers: int  # cores of each search

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the outcomes, but for the clock."""
        text = repr(sorted(PHYSICS_LAWS.items()))
        return {
            "experiment": "physics",
            "laws": hashlib.sha256(text.encode()).hexdigest()[:16],
            "rows": ROWS,
            "seconds": self.seconds,
            "seed": self.seed,
            "workers": self.workers,
        }

    def cells(self) -> list[Cell]:
        """Each law with each noise by each program, so many times."""
        return [
            (name, float(noise), method, run)
            for run in range(self.runs)
            for noise in self.noises
            for name in self.laws
            for method in self.methods
        ]

    def prime(self, missing: Sequence[Cell]) -> None:
        """Compile what a search needs."""
        if any(cell[2] == OURS for cell in missing):
            _fit(*simulate_law(str(missing[0][0])), 1.0, 0, self.workers)

    def run(self, cell: Cell) -> Outcome:
        """Search once, and compare what was found with the law."""
        law, noise, method, seed = PHYSICS_LAWS[str(cell[0])], float(cell[1]), str(cell[2]), self.seed + int(cell[3])
        X, y = simulate_law(law.name, ROWS, noise, seed)
        check = law.rows(np.random.default_rng(run_seed(seed, law.name, "check")), CHECK_ROWS)
        began = time.perf_counter()
        if method == OURS:
            model = _fit(X, y, self.seconds, seed, self.workers)
            outcome = {"seconds": time.perf_counter() - began} | _judged(model, law, check)
            # The arrays of a run are large, and may wait for the collector in cycles.
            del model
            gc.collect()
            return outcome
        formula = Formula(search_by(method, X, y, self.seconds, seed, self.workers))
        seconds = time.perf_counter() - began
        table = _columns(check)
        left, constants = formula.left(table, law.values(check))
        terms = formula.terms(table, constants) if left < LEAST else None
        recovered = terms is not None and terms <= law.terms
        return {"recovered": recovered, "left": left, "terms": terms, "seconds": seconds, "found": formula.text}

    def rows(self, outcomes: Mapping[str, Outcome]) -> Rows:
        """One row for each run so far."""
        made = []
        for cell in self.cells():
            outcome = outcomes.get(run_key(*cell))
            if outcome is not None:
                name, noise, method, run = cell
                law = PHYSICS_LAWS[str(name)]
                row = {"experiment": "physics", "law": name, "field": law.field, "title": law.title}
                row |= {"formula": law.formula, "law_terms": law.terms, "noise": noise, "method": method}
                made.append(row | {"seed": self.seed + int(run)} | outcome)
        return made


def recovery_rates(rows: Rows, *keys: str) -> dict[tuple[Any, ...], tuple[float, int]]:
    """Share of runs that recovered the law, and their number, in groups of runs that have some keys in common."""
    groups: dict[tuple[Any, ...], list[bool]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row["recovered"])
    return {group: (float(np.mean(found)), len(found)) for group, found in groups.items()}


def _columns(table: pd.DataFrame) -> dict[str, np.ndarray]:
    return {str(name): table[name].to_numpy(np.float64) for name in table}


def _fit(X: pd.DataFrame, y: np.ndarray, seconds: float, seed: int, workers: int) -> Any:
    from modejump.estimators.bgnlm import BGNLMRegressor
    from modejump.samplers.budget import Budget

    model = BGNLMRegressor(budget=Budget(seconds=seconds), n_jobs=workers, random_state=seed, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModejumpWarning)
        return model.fit(X, y)


def _judged(model: Any, law: TextbookLaw, check: pd.DataFrame) -> Outcome:
    """What a fitted search says of a law."""
    laws = model.laws_
    of_text = {feature.text: feature for feature in laws.features}
    table, truth = _columns(check), law.values(check)

    def left_by(texts: Sequence[str]) -> float:
        return left_by_features([of_text[text] for text in texts], laws.language, laws.constants, table, truth)

    best, models = model.best_model(), model.models_.head(MOST_MODELS)
    left = left_by(best)
    small = models[(models["probability"] > LEAST_PROBABILITY) & (models["size"] <= law.terms)]
    probability = sum(p for p, texts in zip(small["probability"], small["features"]) if left_by(texts) < LEAST)
    return {
        "recovered": left < LEAST and len(best) <= law.terms,
        "left": left,
        "terms": len(best),
        "probability": float(probability),
        "search": model.verdict_.search,
        "level": model.verdict_.level,
        "found": model.equation(),
    }
