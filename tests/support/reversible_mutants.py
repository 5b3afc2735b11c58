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

import mutants
import numpy as np
import reversible_twin as twin

from modejump.core.random import alias_table
from modejump.kernels.populations.fresh_features import LEFT
from modejump.kernels.populations.moves import NONE, ZERO_REVERSE
from modejump.samplers.chains.reversible_chain import ReversibleChain
from modejump.samplers.populations import Populations

# How the two switches are read: by functions that know the guests, and by those that know the moves' settings.
GUESTS, BETWEEN = f"guests.num[{LEFT}]", f"between.tried[{NONE}, {ZERO_REVERSE}]"
_SEND_AWAY = "    send_away(data, ch, pop, guests, archive, between.also)\n"


@dataclass(frozen=True)
class Change:
    """An expression, or with ``statement`` a whole line, that a mutant replaces."""

    module: str
    old: str
    new: str
    switch: str = GUESTS
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


def _moves(old: str, new: str, **options: Any) -> Change:
    return Change("population_moves", old, new, **options)


def uneven_places(chain: ReversibleChain) -> None:
    """Flips that prefer the first place for a guest, so that it matters who came first."""
    weight = np.ones(len(chain.population.feature))
    weight[chain.first :] = 0.01
    weight[chain.first] = 100.0
    threshold, alias = alias_table(weight)
    chain.moves = chain.moves._replace(threshold=threshold, alias=alias)


MUTANTS = (
    Mutant(
        "rho^d instead of (rho / (1 - rho))^d, as printed",
        (_moves("(size - d) * np.log(1.0 - rho)", "0.0", switch=BETWEEN),),
        ("literal", "delayed", "small", "coupled"),
    ),
    Mutant(
        "no factor for populations of unequal size",
        (_moves("(size - d) * np.log(1.0 - rho)", "-d * np.log(1.0 - rho)", switch=BETWEEN),),
        ("literal", "delayed"),
        {"generated": 12},
    ),
    Mutant(
        "numerator q_r(M'|S, M_k) instead of q_r(M|S, M_k)",
        (_moves("_log_randomise(between, back, distance(st, backward))",
                "_log_randomise(between, back, distance(forward, backward))"),),
        ("literal", "delayed", "small"),
    ),
    Mutant(
        "no check that the way back contains the model",
        (_moves("not _contains(between, st)", "False"),),
        ("literal", "delayed", "small"),
    ),
    Mutant(
        "a way back that knows the model it came from",
        (_moves("range(guests.first)", "range(len(features))"),),
        ("literal", "delayed", "small"),
    ),
    Mutant(
        "a way back that knows the last population",
        (_moves("range(guests.first)", "range(len(features))"), _moves(_SEND_AWAY, "", statement=True)),
        ("literal", "delayed", "small"),
    ),
    Mutant(
        "the target with the guests' boosts",
        (_moves("plain_value(guests, forward) - plain_value(guests, st)",
                "forward.val[LOG_POSTERIOR] - st.val[LOG_POSTERIOR]"),),
        ("literal", "delayed", "small"),
    ),
    Mutant(
        "coupled without the library's factor",
        (_moves("(_library_size(guests, st) - _library_size(guests, forward)) * np.log(between.include)", "0.0"),),
        ("coupled",),
    ),
    Mutant(
        "coupled with the library's factor upside down",
        (_moves("(_library_size(guests, st) - _library_size(guests, forward)) * np.log(between.include)",
                "(_library_size(guests, forward) - _library_size(guests, st)) * np.log(between.include)"),),
        ("coupled",),
    ),
    Mutant(
        "coupled without the guests' factors",
        (_moves("forward.val[LOG_POSTERIOR] - st.val[LOG_POSTERIOR] + log_factor",
                "plain_value(guests, forward) - plain_value(guests, st) + log_factor"),),
        ("coupled",),
    ),
    Mutant(
        "edits without their ratio",
        (_moves("np.log(back / edit_probability(ar, space, f, g))", "0.0"),),
        ("edit",),
    ),
    Mutant(
        "edits with the guests' boosts",
        (_moves("value - st.val[LOG_POSTERIOR] - boosts", "value - st.val[LOG_POSTERIOR]"),),
        ("edit",),
    ),
    Mutant(
        "recalled models without their weights",
        (_moves("recalled.log_weight[old] - recalled.log_weight[new]", "0.0", switch=BETWEEN),),
        ("recall",),
    ),
    Mutant(
        "guests without their boost in a population",
        (Change("guests", "-log_rho(ar, guests, space, f)", "0.0"),),
        ("none",),
    ),
    Mutant(
        "boosts of the rate alone",
        (Change("guests", "-log_rho(ar, guests, space, f)", "-np.log(guests.rate)"),),
        ("none",),
    ),
    Mutant(
        "guests that stay from the last population",
        (Change("guests", "not st.member[place] and not also[place]",
                "not st.member[place] and not also[place] and (place & 1) == 0"),),
        ("none", "mixture"),
    ),
    Mutant("places of guests that are not alike", (), ("none",), prepare=uneven_places),
)  # fmt: skip
# The build without a mutant, to show that nothing else in it is broken.
UNBROKEN = Mutant("nothing", (), ("none", "literal", "delayed", "small", "coupled", "edit", "recall", "mixture"))


@cache
def broken_driver() -> Callable[..., None]:
    """A driver of the kernels with every mutant in them."""
    changes: dict[str, list[tuple[str, str]]] = {}
    for number, mutant in enumerate(MUTANTS, start=1):
        for change in mutant.changes:
            changes.setdefault(change.module, []).append((change.old, change.text(number)))
    fresh = mutants.load_changed("mutants", changes)
    return twin.driver(fresh["reversible"], fresh["population_moves"], fresh["guests"])


def switch(mutant: Mutant) -> Callable[[ReversibleChain], None]:
    """What turns a mutant on in a chain."""
    number = MUTANTS.index(mutant) + 1 if mutant in MUTANTS else 0

    def turn_on(chain: ReversibleChain) -> None:
        chain.guests.num[LEFT] = chain.between.tried[NONE, ZERO_REVERSE] = number
        if mutant.prepare is not None:
            mutant.prepare(chain)

    return turn_on


def settings_of(mutant: Mutant) -> Populations:
    """Settings under which mutants show: a large rho, few steps, and populations of uneven size."""
    return Populations(**{"steps": 5, "generated": 6, "search": 4, "rho": 0.3, **mutant.settings})
