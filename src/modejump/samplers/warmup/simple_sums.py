"""First models of a search: sums of simple products without constants that explain the response together.

What is best alone often imitates a sum, and where products have to be simple it cannot. So there are a few attempts,
each with products up to another complexity. In each, terms are exchanged for another one as long as that makes the sum
better. Several terms that imitate two others then make way for both of them.
"""

from __future__ import annotations

import math

import numpy as np

from modejump.features.expression import Expression
from modejump.kernels.census import choose_together, leading_products
from modejump.samplers.warmup.census import Census, basis_of, pairs_beside, unit_without, ways_out

# Complexities of the products, at most, of which so many are tried, and how many products there may be; terms of a
# model, and those that make way for others, at most.
SIMPLE, ATTEMPTS, MOST_PRODUCTS = (3, 4, 5, 6, 7), 4, 40_000
MOST_TERMS, MOST_OUT = 8, 2
# Parts of their price that terms pay: at their full price no term of a sum of many may be worth it while the others are
# not there. Where there are more products than this, that would take too long.
PRICES, FEW = ((1.0,), (0.25, 1.0)), 3_000
# Share of the factors that are looked at: all terms of a law have to be there.
SHARE = 0.95
# Products of which all pairs are compared, and how often.
PAIRED, ROUNDS = 400, 4


class SimpleSums:
    """Sums of simple products over the rows of a census.

    Parameters
    ----------
    census : Census
        The products.
    rng : Generator
        Which factors are looked at, and how complex the products may be.
    """

    def __init__(self, census: Census, rng: np.random.Generator) -> None:
        self.census, self.rng = census, rng
        self.y = census.y * census.root
        self.chosen = np.concatenate([[0], census.plain[rng.random(len(census.plain)) < SHARE]])
        cost = census.cost(self.chosen).ravel()
        # The simplest first, so that those an attempt may use are the first ones; by chance among equals.
        order = rng.permutation(len(cost))
        order = np.sort(order[np.argsort(cost[order], kind="stable")][:MOST_PRODUCTS])
        self.order = order[np.argsort(cost[order], kind="stable")]
        self.cost = np.minimum(cost[self.order], len(census.price) - 1)
        self.first, self.second = np.divmod(self.order, len(census.right))
        self.whole = census.whole[self.chosen].ravel()[self.order]
        self.left = census.left[self.chosen] * census.root
        # A term costs its coefficient, too: half the logarithm of the observations at least.
        self.price = census.price - 0.5 * math.log(len(self.y))
        self.intercept = basis_of(census.root[None])
        self.own_y = unit_without(census.y[None], census.root, self.intercept)[0]

    def best(self) -> list[Expression]:
        """The terms of the best sum."""
        if not self.own_y.any():
            return []
        every = np.arange(len(self.order))
        ends = np.searchsorted(self.cost, self.rng.choice(SIMPLE, ATTEMPTS, replace=False), side="right")
        # Functions imitate sums of powers.
        rational = self.census.rational[self.chosen][self.first]
        best = -math.inf, every[:0]
        for among in (*(every[:end] for end in ends), np.flatnonzero(rational & (self.cost <= max(SIMPLE)))):
            few = len(among) <= FEW
            for prices in PRICES if few else PRICES[:1]:
                value, terms = 0.0, every[:0]
                for part in prices if len(among) else ():
                    value, terms = self._exchanged(among, terms, part, MOST_OUT if few else 1)
                if value > best[0]:
                    best = value, among[terms]
        # Two of them may imitate a richer one, and some of them two others.
        value, terms = self._exchanged(every, best[1])
        for _ in range(ROUNDS):
            before = value
            value, terms = self._exchanged(every, self._with_a_pair(value, terms))
            if not value > before + 1e-6:
                break
        made = (self.census.simple_product(self.chosen, int(self.order[i])) for i in terms)
        return [f for f in made if f is not None]

    def _exchanged(
        self, among: np.ndarray, terms: np.ndarray, part: float = 1.0, most_out: int = MOST_OUT
    ) -> tuple[float, np.ndarray]:
        """A sum of some products after exchanges of its terms for another one, and about its log posterior."""
        room = np.zeros(max(min(MOST_TERMS, self.census.size), len(terms)), np.int64)
        room[: len(terms)] = terms
        products = [some[among] for some in (self.first, self.second, self.cost, self.whole)]
        given = self.price, self.census.root, self.y, part, most_out, room, len(terms)
        value, count = choose_together(self.left, self.census.right, *products, *given)
        return value, room[:count]

    def _with_a_pair(self, value: float, terms: np.ndarray) -> np.ndarray:
        """The sum with two products in the place of some terms, where that is better than this value."""
        census, ways = self.census, ways_out(len(terms), MOST_OUT)
        ways = [out for out in ways if len(terms) - len(out) + 2 <= min(MOST_TERMS, census.size)]
        masks = np.array([np.isin(np.arange(len(terms)), out) for out in ways], np.uint8).reshape(len(ways), len(terms))
        pool = np.empty((len(ways), PAIRED // max(len(ways), 1)), np.int64)
        leading_products(
            self.left, census.right, self.first, self.second, self.cost, self.whole, self.price, census.root, self.y,
            terms, masks, pool,
        )  # fmt: skip
        at = np.unique(pool[pool >= 0])
        if not len(at):
            return terms
        ones = np.ones(len(self.y))
        rows, there = (
            unit_without(self.left[self.first[some]] * census.right[self.second[some]], ones, self.intercept)
            for some in (at, terms)
        )
        weight, best = self.price[self.cost[at]], terms
        found = pairs_beside(rows, there, self.own_y, weight, ways, 0.5 * len(self.y))
        for out, (values, partner) in zip(ways, found, strict=True):
            rest = np.delete(terms, out)
            i = int(np.argmax(values))
            gained = float(values[i] + self.price[self.cost[rest]].sum())
            if partner[i] >= 0 and gained > value + 1e-6:
                value, best = gained, np.append(rest, at[[i, partner[i]]])
        return best
