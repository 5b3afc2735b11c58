"""Fitted models for pages about them, and what a page should say, computed from the models themselves."""

from __future__ import annotations

import json
import re
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

import modejump
from modejump.report.prior_slider import possible_models, term_charges

# What a column may be called, if nobody escapes it.
NASTY = ("<script>alert(1)</script>", "a & b", "\"'`", "</template><img src=x onerror=alert(2)>", "größe €")
NASTY_TARGET = "</script><b>y</b>"


def table(rows: int = 90, seed: int = 5) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, 5)), columns=list(NASTY))
    y = frame.iloc[:, 0] + 0.35 * frame.iloc[:, 1] - 0.25 * frame.iloc[:, 4] + rng.normal(size=rows)
    return frame, pd.Series(y, name=NASTY_TARGET)


@lru_cache
def enumerated() -> Any:
    """All 32 models, under the uniform prior."""
    return modejump.BGLMRegressor(model_prior="uniform", random_state=1).fit(*table())


@lru_cache
def sampled() -> Any:
    """Chains over twelve weak terms; few steps, so that not all models are met."""
    rng = np.random.default_rng(3)
    x = pd.DataFrame(rng.normal(size=(60, 12)), columns=[f"gene {k}" for k in range(12)])
    y = x["gene 0"] + 0.4 * x["gene 1"] + 0.3 * x["gene 2"] + rng.normal(size=60)
    budget = modejump.Budget(steps=4000)
    model = modejump.BGLMRegressor(algorithm="mjmcmc", chains=4, budget=budget, random_state=1)
    with warnings.catch_warnings(action="ignore"):  # the run is short on purpose
        return model.fit(x, y.rename("growth"))


@lru_cache
def classes() -> Any:
    frame, y = table(rows=120, seed=6)
    return modejump.BGLMClassifier(random_state=1).fit(frame, np.where(y > 0, "<yes>", "no"))


@lru_cache
def laws() -> Any:
    rng = np.random.default_rng(1)
    x = pd.DataFrame(rng.uniform(0.5, 3.0, (80, 3)), columns=["mass", "speed", "angle"])
    y = pd.Series(2.0 + 5.0 * x["mass"] * np.sin(x["angle"]) + rng.normal(scale=0.5, size=80), name="force")
    model = modejump.BGNLMRegressor(chains=4, budget=modejump.Budget(steps=15_000), random_state=1)
    return model.fit(x, y)


def numbers_of(page: str) -> dict[str, Any]:
    """What the page's script reads."""
    found = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def weighed_again(model: Any, log2: float) -> dict[str, Any]:
    """Inclusion probabilities by name and the rest under another prior, from the list of the models held."""
    posterior, prior = model.posterior_, model._options.model_prior
    models = possible_models(posterior.result.models)
    charges = term_charges(posterior, prior)
    member = models.membership(posterior.problem.n_terms)
    log_weight = models.log_posterior + log2 * np.log(2.0) * (member @ charges)
    p = np.exp(log_weight - log_weight.max())
    p /= p.sum()
    return {
        "inclusion": dict(zip(posterior.problem.names, (p @ member).tolist(), strict=True)),
        "effective": float(1.0 / (p**2).sum()),
        "mean_size": float(p @ member.sum(axis=1)),
        "best": float(p.max()),
        "p": p,
    }
