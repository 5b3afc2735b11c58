"""Other programs for symbolic regression, where they are installed: each searches for a given time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class Peer(NamedTuple):
    """A program, the package it comes in, and a function that searches and returns the formula chosen."""

    name: str
    package: str
    search: Callable[[pd.DataFrame, np.ndarray, float, int, int], str]


def _operon(X: pd.DataFrame, y: np.ndarray, seconds: float, seed: int, workers: int) -> str:
    """Settings of SRBench: NSGA-II over R² and length, constants by Levenberg-Marquardt.

    Beyond its arithmetic it has the functions of our defaults, and powers. Of the front, BIC chooses: the description
    length, its own default, would have to be told the size of the noise.
    """
    regressor = import_module("pyoperon.sklearn").SymbolicRegressor(
        allowed_symbols="add,sub,mul,div,constant,variable,exp,log,sin,cos,tanh,sqrt,square,pow",
        objectives=["r2", "length"],
        model_selection_criterion="bayesian_information_criterion",
        optimizer_iterations=5,
        population_size=1000,
        max_length=50,
        # The time alone ends the search.
        generations=10**9,
        max_evaluations=10**15,
        max_time=int(np.ceil(seconds)),
        n_threads=workers,
        random_state=seed,
    )
    regressor.fit(X.to_numpy(), y)
    return str(regressor.get_model_string(regressor.model_, names=list(X.columns), precision=12))


def _gplearn(X: pd.DataFrame, y: np.ndarray, seconds: float, seed: int, workers: int) -> str:
    """Its own settings with more functions, one generation after the other; the best by penalised fitness."""
    functions = import_module("gplearn.functions")
    more = {"exp": _bounded_exp, "tanh": np.tanh}
    made = [functions.make_function(function=function, name=name, arity=1) for name, function in more.items()]
    regressor = import_module("gplearn.genetic").SymbolicRegressor(
        population_size=1000,
        generations=1,
        function_set=("add", "sub", "mul", "div", "inv", "sqrt", "log", "sin", "cos", *made),
        const_range=(-5.0, 5.0),
        warm_start=True,
        feature_names=list(X.columns),
        n_jobs=workers,
        random_state=seed,
    )
    began = time.perf_counter()
    longest = 0.0
    while True:
        started = time.perf_counter()
        regressor.fit(X.to_numpy(), y)
        now = time.perf_counter()
        longest = max(longest, now - started)
        if now - began + longest > seconds:
            return str(regressor._program)
        regressor.set_params(generations=regressor.generations + 1)


def _bounded_exp(x: np.ndarray) -> Any:
    return np.exp(np.clip(x, -100.0, 100.0))


PEERS = {peer.name: peer for peer in (Peer("operon", "pyoperon", _operon), Peer("gplearn", "gplearn", _gplearn))}


def installed() -> tuple[str, ...]:
    """Names of the peers that are installed."""
    return tuple(name for name, peer in PEERS.items() if find_spec(peer.package) is not None)


def search_by(name: str, X: pd.DataFrame, y: np.ndarray, seconds: float, seed: int, workers: int) -> str:
    """The formula that a peer chooses."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return PEERS[name].search(X, y, seconds, seed, workers)
