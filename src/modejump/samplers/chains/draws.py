"""Draws from the posterior: the model in which a chain ended each batch, which stand for all that it visited.

Where the posterior is spread over more models than any table holds, the best ones are no sample of it. Draws are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from modejump.features.nonlinear.expression import Feature
from modejump.kernels.chain import Chain
from modejump.kernels.populations.fresh_features import Guests
from modejump.kernels.populations.population import Population
from modejump.runtime.snapshots import Reader, Snapshot
from modejump.samplers.chains import feature_snapshots as kept

# A model and its log posterior.
Draw = tuple[frozenset[Feature], float]
# So many draws, at most, stand for a posterior in averages.
MOST_DRAWS = 1000


class Drawing(Protocol):
    """A chain that keeps the model at the end of each batch."""

    chain: Chain
    population: Population
    guests: Guests
    draws: list[Draw]

    def feature(self, number: int) -> Feature:
        """The feature with a number."""


def draw_of(chain: Drawing) -> Draw:
    """The model that a chain is in, with its log posterior."""
    state = chain.chain.state
    places = np.flatnonzero(state.member)
    model = frozenset(chain.feature(int(f)) for f in chain.population.feature[places])
    return model, float(state.scalars["log_posterior"] - chain.guests.boost[places].sum())


def halved_draws(draws: Sequence[Draw], batches: int) -> list[Draw]:
    """The draws at the end of batches that became one, two and two."""
    return [draws[2 * i + 1] for i in range(batches)]


def counted_draws(chains: Sequence[Drawing]) -> dict[frozenset[Feature], tuple[float, int]]:
    """Evenly spaced draws of all chains: each model's log posterior, and how often it was drawn."""
    everything = [draw for chain in chains for draw in chain.draws]
    chosen = np.unique(np.linspace(0, len(everything) - 1, min(len(everything), MOST_DRAWS)).astype(np.int64))
    found: dict[frozenset[Feature], tuple[float, int]] = {}
    # Neighbours are alike: where there is no room for all, those that find some must not be neighbours.
    for i in np.random.default_rng(0).permutation(chosen).tolist():
        model, value = everything[i]
        found[model] = (value, found.get(model, (value, 0))[1] + 1)
    return found


def draw_arrays(draws: Sequence[Draw], numbers: kept.FeatureNumbers) -> Snapshot:
    """Draws as plain arrays."""
    return {
        **kept.model_arrays([model for model, _ in draws], numbers),
        "value": np.array([value for _, value in draws], np.float64),
    }


def read_draws(reader: Reader, features: Sequence[Feature]) -> list[Draw]:
    """Draws from plain arrays."""
    models = kept.read_models(reader, features)
    values = reader.array("value", np.float64, (len(models),)).tolist()
    return list(zip(models, values, strict=True))
