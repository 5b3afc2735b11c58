"""Features at random: a fixed distribution q over the whole declared space, whose probabilities can be computed.

A draw is either an edit of a library feature, from a table that is frozen with the library, or comes from the
language's own distribution over all features. Since q depends on nothing that happens after warm-up and q(f) is known
for each f, the populations made from it are part of an exact sampler.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from modejump.core.compilation import entry, kernel
from modejump.core.random import below, draw_alias, uniform
from modejump.features.language import draw_feature, edit_choices, edited, log_probability
from modejump.features.table import truncate


class FeatureDistribution(NamedTuple):
    """The distribution q: the table of edits, and its share."""

    share: float  # share of draws from the table
    listed: np.ndarray  # int64 (T,): features of the table of edits
    threshold: np.ndarray  # float64 (T,), with alias (T,)
    alias: np.ndarray
    probability: np.ndarray  # float64 (frozen,): probability of each frozen feature in the table


@kernel
def draw_from(q, space, table, rng):
    """A feature from q, -1 where the draw is void."""
    if uniform(rng) < q.share:
        return q.listed[draw_alias(rng, q.threshold, q.alias)]
    return draw_feature(space, table, rng)


@kernel
def log_q(q, space, table, f):
    """Log of q(f)."""
    anywhere = math.log(1.0 - q.share) + log_probability(space, table, f)
    if f >= len(q.probability) or q.share * q.probability[f] == 0.0:
        return anywhere
    known = math.log(q.share * q.probability[f])
    top = max(known, anywhere)
    return top + math.log(math.exp(known - top) + math.exp(anywhere - top))


@kernel
def draw_edit(space, table, f, rng):
    """A random edit of f, -1 where the draw is void; its probability is ``edit_probability``."""
    u, weight = uniform(rng), space.edit_weight
    operator = np.int64(0)
    while operator < len(weight) - 1 and u >= weight[operator]:
        u -= weight[operator]
        operator += 1
    node = below(rng, table.nodes[f])
    choices = edit_choices(space, table, f, node, operator)
    return edited(space, table, f, node, operator, below(rng, choices)) if choices > 0 else np.int64(-1)


@kernel
def edit_probability(space, table, f, target):
    """Probability that one random edit turns f into ``target``: the sum over all edits of f that do.

    Whatever the count has to spell is forgotten at once: a feature may have thousands of edits.
    """
    count, children = table.count, table.children
    gain = table.complexity[target] - table.complexity[f]
    total = 0.0
    for operator in range(len(space.edit_weight)):
        if space.edit_weight[operator] == 0.0:
            continue
        if gain < space.edit_gain[operator, 0] or gain > space.edit_gain[operator, 1]:
            continue
        for node in range(table.nodes[f]):
            choices = edit_choices(space, table, f, node, operator)
            hits = 0
            for choice in range(choices):
                if edited(space, table, f, node, operator, choice) == target:
                    hits += 1
                truncate(table, count, children)
            if hits > 0:
                total += space.edit_weight[operator] * hits / (choices * table.nodes[f])
    return total


@kernel
def next_edit(space, table, f, at):
    """Result of the next edit of f, -1 where it is void, -2 after the last.

    ``at`` holds node, operator and choice of the edit; it starts with zeros and is moved on.
    """
    while at[0] < table.nodes[f]:
        while at[1] < len(space.edit_weight):
            choices = 0
            if space.edit_weight[at[1]] > 0.0:
                choices = edit_choices(space, table, f, at[0], at[1])
            if at[2] < choices:
                at[2] += 1
                return edited(space, table, f, at[0], at[1], at[2] - 1)
            at[1] += 1
            at[2] = 0
        at[0] += 1
        at[1] = 0
    return np.int64(-2)


@kernel
def _count_edits(space, table, f):
    most = 0
    for node in range(table.nodes[f]):
        for operator in range(len(space.edit_weight)):
            if space.edit_weight[operator] > 0.0:
                most += edit_choices(space, table, f, node, operator)
    return most


@entry
def list_edits(space, table, parents, weight, listed, probability):
    """The table of edits: for each parent all its edits, by ``weight`` of the parent times that of the edit.

    Fills ``listed`` with distinct features in order of first appearance and ``probability`` by feature; returns how
    many there are.
    """
    found = 0
    for at in range(len(parents)):
        f = parents[at]
        most = _count_edits(space, table, f)
        # Each edit makes a few features, and each of them has at most as many children as f has nodes.
        made_most = most * (table.depth[f] + 2)
        crowded = table.children + made_most * (table.nodes[f] + 1) > 3 * len(table.child) // 4
        if found + most > len(listed) or table.count + made_most > len(probability) or crowded:
            break
        for node in range(table.nodes[f]):
            for operator in range(len(space.edit_weight)):
                if space.edit_weight[operator] == 0.0:
                    continue
                choices = edit_choices(space, table, f, node, operator)
                for choice in range(choices):
                    made = edited(space, table, f, node, operator, choice)
                    # An edit may make more on the way than was thought; a feature that finds no room is left out.
                    if made < 0 or made >= len(probability):
                        continue
                    if probability[made] == 0.0:
                        listed[found] = made
                        found += 1
                    probability[made] += weight[at] * space.edit_weight[operator] / (choices * table.nodes[f])
    return found
