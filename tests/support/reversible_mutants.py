"""The kernels of the reversible sampler with one thing broken on purpose, all in one build.

To compile them takes long, so the mutants share one build of the kernels: each breaks its line only where a switch
shows its number. The switches are two cells that the kernels under test do not use: the steps that are left of a
population, which a driver counts itself, and the zero reverse probabilities of the move that does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import feature_experiments
import mutants
import numpy as np

from modejump.core.compilation import Entry
from modejump.core.random import alias_table
from modejump.kernels.moves import NO_FRESH
from modejump.kernels.populations.between import ZERO_REVERSE
from modejump.kernels.populations.fresh_features import own_log_posterior
from modejump.kernels.populations.moves import NONE
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.settings import Sampler

# How the two switches are read: by functions that know the chain, and by those that know the moves' settings alone.
CHAIN, BETWEEN = "fc.fresh.left", f"between.tried[{NONE}, {ZERO_REVERSE}]"
_BETWEEN, _LITERAL, _COUPLED, _EDIT, _RECALL, _FRESH = (
    f"kernels.populations.{name}"
    for name in ("between", "literal_move", "coupled_move", "edit_move", "recall_move", "fresh_features")
)
_DROP = "    drop_fresh(fc, between.also)\n"
_LIBRARY_FACTOR = "(_library_size(fresh, st) - _library_size(fresh, forward)) * np.log(between.include)"


@dataclass(frozen=True)
class Change:
    """An expression, or with ``statement`` a whole line, that a mutant replaces."""

    module: str
    old: str
    new: str
    switch: str = CHAIN
    statement: bool = False

    def text(self, number: int) -> str:
        if self.statement:
            return f"    if {self.switch} != {number}:\n    {self.old}"
        return f"({self.new} if {self.switch} == {number} else {self.old})"


@dataclass(frozen=True)
class Mutant:
    """What is broken, by which changes, and the moves and settings that show it."""

    what: str
    changes: tuple[Change, ...]
    moves: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[ReversibleChain], None] | None = None


def uneven_places(chain: ReversibleChain) -> None:
    """Flips that prefer the first place for a fresh feature, so that it matters which came first."""
    weight = np.ones(len(chain.arrays.population.feature))
    weight[chain.first :] = 0.01
    weight[chain.first] = 100.0
    threshold, alias = alias_table(weight)
    # Without the list of places that are taken, flips go by the weights of the places themselves.
    chain.replace(moves=chain.arrays.moves._replace(threshold=threshold, alias=alias, occupied=NO_FRESH))


MUTANTS = (
    Mutant(
        "rho^d instead of (rho / (1 - rho))^d, as printed",
        (Change(_BETWEEN, "(size - d) * np.log(1.0 - rho)", "0.0", switch=BETWEEN),),
        ("literal", "delayed", "small", "coupled"),
    ),
    Mutant(
        "no factor for populations of unequal size",
        (Change(_BETWEEN, "(size - d) * np.log(1.0 - rho)", "-d * np.log(1.0 - rho)", switch=BETWEEN),),
        ("literal", "delayed"),
        {"generated": 12},
    ),
    Mutant(
        "numerator q_r(M'|S, M_k) instead of q_r(M|S, M_k)",
        (Change(_LITERAL, "log_randomise(between, back, distance(st, backward))",
                "log_randomise(between, back, distance(forward, backward))"),),
        ("literal", "delayed", "small"),
    ),
    Mutant(
        "no check that the way back contains the model",
        (Change(_LITERAL, "not _contains(between, st)", "False"),),
        ("literal", "delayed", "small"),
    ),
    Mutant(
        "a way back that knows the model it came from",
        (Change(_LITERAL, "range(fc.fresh.first)", "range(len(features))"),),
        ("literal", "delayed", "small"),
    ),
    Mutant(
        "a way back that knows the last population",
        (
            Change(_LITERAL, "range(fc.fresh.first)", "range(len(features))"),
            Change(_LITERAL, _DROP, "", statement=True),
        ),
        ("literal", "delayed", "small"),
    ),
    Mutant(
        "the target with the boosts of fresh features",
        (Change(_LITERAL, "own_log_posterior(fresh, forward) - own_log_posterior(fresh, st)",
                "forward.log_posterior - st.log_posterior"),),
        ("literal", "delayed", "small"),
    ),
    Mutant(
        "coupled without the library's factor",
        (Change(_COUPLED, _LIBRARY_FACTOR, "0.0"),),
        ("coupled",),
    ),
    Mutant(
        "coupled with the library's factor upside down",
        (Change(_COUPLED, _LIBRARY_FACTOR, f"-{_LIBRARY_FACTOR}"),),
        ("coupled",),
    ),
    Mutant(
        "coupled without the factors of fresh features",
        (Change(_COUPLED, "forward.log_posterior - st.log_posterior + log_factor",
                "own_log_posterior(fresh, forward) - own_log_posterior(fresh, st) + log_factor"),),
        ("coupled",),
    ),
    Mutant(
        "edits without their ratio",
        (Change(_EDIT, "np.log(back / edit_probability(fc.space, fc.table, f, g))", "0.0"),),
        ("edit",),
    ),
    Mutant(
        "edits with the boosts of fresh features",
        (Change(_EDIT, "value - st.log_posterior - boosts", "value - st.log_posterior"),),
        ("edit",),
    ),
    Mutant(
        "recalled models without their weights",
        (Change(_RECALL, "recalled.log_weight[old] - recalled.log_weight[new]", "0.0"),),
        ("recall",),
    ),
    Mutant(
        "fresh features without their boost",
        (Change(_FRESH, "-log_rho(fc, f)", "0.0"),),
        ("none",),
    ),
    Mutant(
        "boosts of the rate alone",
        (Change(_FRESH, "-log_rho(fc, f)", "-np.log(fc.fresh.rate)"),),
        ("none",),
    ),
    Mutant(
        "fresh features that stay from the last population",
        (Change(_FRESH, "not member[place] and not also[place]",
                "not member[place] and not also[place] and (place & 1) == 0"),),
        ("none", "mixture"),
    ),
    Mutant("places that are not alike", (), ("none",), prepare=uneven_places),
)  # fmt: skip
# The build without a mutant, to show that nothing else in it is broken.
UNBROKEN = Mutant("nothing", (), ("none", "literal", "delayed", "small", "coupled", "edit", "recall", "mixture"))


@cache
def broken_driver() -> Entry:
    """A driver of the kernels with every mutant in them."""
    changes: dict[str, list[tuple[str, str]]] = {}
    for number, mutant in enumerate(MUTANTS, start=1):
        for change in mutant.changes:
            changes.setdefault(change.module, []).append((change.old, change.text(number)))
    fresh = mutants.load_changed("mutants", changes, {"own_log_posterior": own_log_posterior})
    return feature_experiments.driver(
        fresh["kernels.populations.reversible"], fresh["kernels.populations.moves"], fresh[_FRESH]
    )


def switch(mutant: Mutant) -> Callable[[ReversibleChain], None]:
    """What turns a mutant on in a chain."""
    number = MUTANTS.index(mutant) + 1 if mutant in MUTANTS else 0

    def turn_on(chain: ReversibleChain) -> None:
        chain.arrays.fresh.scalars["left"] = chain.arrays.between.tried[NONE, ZERO_REVERSE] = number
        if mutant.prepare is not None:
            mutant.prepare(chain)

    return turn_on


def settings_of(mutant: Mutant) -> Sampler:
    """Settings under which mutants show: a large rho, few steps, and populations of uneven size."""
    return Sampler(**{"population_steps": 5, "generated": 6, "search": 4, "population_rho": 0.3, **mutant.settings})
