"""The model of a search by evolution, compiled: whose turn it is, who makes way, and who comes in.

Kernels here take the handle on a `FeatureChain`, see `modejump.kernels.populations.feature_chain`.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import kernel
from modejump.core.random import below, uniform
from modejump.features.table import COVARIATE, find_node
from modejump.kernels.evaluate import NEG_INF
from modejump.kernels.neighbour import set_model
from modejump.kernels.populations.edit_scores import place_beside
from modejump.kernels.populations.genetic import clear_record
from modejump.kernels.populations.population import vacate
from modejump.kernels.state import clear_model

# Whether members that share covariates make way together: in a last round of turns, or in a first one as well.
TOGETHER, TOGETHER_FIRST = 1, 2
# How often only some of the members that share covariates make way.
SOME = 0.5
# Gain in log posterior for which a model is left: edits of the best models find the rest.
BETTER = 0.01


@kernel
def put_rest(fc):
    """Put the state at the model without the members that make way, with an empty store."""
    evo, ch = fc.evolution, fc.chain
    clear_record(ch)
    # In the same order whatever came before, so that a search can be resumed.
    clear_model(ch.state)
    rest = evo.member.copy()
    for place in range(len(rest)):
        if evo.out[place]:
            rest[place] = 0
    set_model(fc.data, ch.state, ch.work, ch.store, rest)


@kernel
def without_limits(fc):
    """Let features be as complex, and models as large, as the space has it."""
    evo, space = fc.evolution, fc.space
    evo.cost, evo.without = 0.0, 0
    evo.depth, evo.constants = space.max_depth, 1 << 30
    evo.most = len(evo.member) - 1


@kernel
def _best_of_pool(evo):
    """The best feature at its cost, and the log posterior of the model with it, less the cost."""
    best, top = np.int64(-1), NEG_INF
    features, values = evo.feature, evo.value
    for c in range(features.shape[0]):
        for i in range(features.shape[1]):
            if features[c, i] >= 0 and values[c, i] - evo.cost * c > top:
                best, top = features[c, i], values[c, i] - evo.cost * c
    return best, top


@kernel
def free_place(evo):
    """A place without a member; -1 where the model is as large as it may be."""
    for place in range(evo.most):
        if not evo.member[place]:
            return np.int64(place)
    return np.int64(-1)


@kernel
def settle(fc):
    """Put the best feature in the place of those that make way, or none, where that makes the model better.

    Returns whether it does.
    """
    evo, features, complexity = fc.evolution, fc.population.feature, fc.table.complexity
    best, value = _best_of_pool(evo)
    last, place = len(evo.member) - 1, evo.place
    rest = now = fc.chain.state.log_posterior
    if place < last:
        now = evo.best
        for other in range(last):
            if evo.out[other]:
                now -= evo.cost * complexity[features[other]]
    better = best >= 0 and value > max(rest, now) + BETTER
    if not better and not (place < last and rest > now + BETTER):
        return False
    place = free_place(evo) if place == last else place
    if better and (place < 0 or not place_beside(fc, place, best)):
        return False
    for other in range(last):
        if evo.out[other] and not (better and other == place):
            evo.member[other] = 0
            vacate(fc, np.int64(other))
    evo.best = rest
    if better:
        features[place] = best
        evo.member[place] = 1
        evo.best = value + evo.cost * complexity[best]
    return True


@kernel
def _covariates_of(table, f):
    """Covariates of a feature by bits; where there are very many, some share one."""
    found = np.int64(0)
    for number in range(table.nodes[f]):
        node, _ = find_node(table, f, np.int64(number))
        if table.kind[node] == COVARIATE:
            found |= np.int64(1) << np.int64(table.code[node] % 63)
    return found


@kernel
def _make_way(fc, place):
    """Note who makes way in the turn of a place, the member there first; False where this is no turn of its own.

    Several members may imitate one feature: then no single one can be replaced by it. So in some turns all members that
    share a covariate with the one at the place make way together, or some of them.
    """
    evo, last = fc.evolution, len(fc.evolution.member) - 1
    evo.out[:] = 0
    if place == last:
        return not evo.together
    if not evo.member[place]:
        return False
    evo.out[place] = 1
    if not evo.together:
        return True
    own, sharing = _covariates_of(fc.table, fc.population.feature[place]), 0
    for other in range(last):
        if evo.member[other] and other != place and _covariates_of(fc.table, fc.population.feature[other]) & own:
            evo.out[other] = 1
            sharing += 1
    # Of several that share one some may belong to another feature.
    if sharing > 1 and uniform(fc.chain.rng) < SOME:
        kept = below(fc.chain.rng, sharing)
        for other in range(last):
            if evo.out[other] and other != place:
                if kept != 0 and uniform(fc.chain.rng) < 0.5:
                    evo.out[other] = 0
                kept -= 1
    return sharing > 0


@kernel
def next_place(fc):
    """Whose turn it is next: the next member's, or that of a further one; False where none has found anything."""
    evo, last = fc.evolution, len(fc.evolution.member) - 1
    size = 0
    for place in range(last):
        size += evo.member[place]
    for _ in range(3):
        place = evo.place
        for _ in range(last + 1):
            if evo.idle >= size + (size < evo.most):
                break
            place = (place + 1) % (last + 1)
            if (place < last or size < evo.most) and _make_way(fc, place):
                evo.place = place
                return True
        if evo.together == TOGETHER:
            return False
        evo.together, evo.idle = 0 if evo.together == TOGETHER_FIRST else TOGETHER, 0
    return False
