"""Random features and all spellings of small ones, for the tests of features."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from hypothesis import strategies as st

from modejump.features.nonlinear.expression import Feature

# Plain names, one of a transform, and names that need backticks.
NAMES = ("x", "y", "z_1", ".a.b", "sin", "Ünï", "host star mass", "2nd", "a`b", "`", "sin(x)", "x*y", "1", "\n", "x²")
FUNCTIONS = ("sin", "troot", "sigmoid", "to35", "p0pm05", "exp_abs")

functions = st.sampled_from(FUNCTIONS)
covariates = st.sampled_from(NAMES).map(Feature.covariate)


def _larger(inside: st.SearchStrategy[Feature]) -> st.SearchStrategy[Feature]:
    several = st.lists(inside, min_size=1, max_size=4)
    return st.one_of(
        st.builds(Feature.modification, functions, inside),
        several.map(lambda factors: Feature.product(*factors)),
        st.builds(lambda name, parents: Feature.projection(name, *parents), functions, several),
    )


features = st.recursive(covariates, _larger, max_leaves=10)

# An expression tree: a covariate, a function of a tree, or an ordered product of two trees.
Tree = str | tuple["Tree"] | tuple["Tree", "Tree"]


@cache
def trees(complexity: int) -> tuple[Tree, ...]:
    """All ordered binary expression trees of this complexity over x, y, one function and multiplication."""
    return ("x", "y") if complexity == 1 else tuple(_composite_trees(complexity))


def _composite_trees(complexity: int) -> Iterator[Tree]:
    yield from ((inside,) for inside in trees(complexity - 1))
    for left in range(1, complexity):
        yield from ((a, b) for a in trees(left) for b in trees(complexity - left))


def feature_of(tree: Tree) -> Feature:
    """The canonical form of an expression tree."""
    if isinstance(tree, str):
        return Feature.covariate(tree)
    parts = [feature_of(part) for part in tree]
    return Feature.product(*parts) if len(parts) == 2 else Feature.modification("sin", parts[0])


def depth_of(tree: Tree) -> int:
    """The number of operations on the longest way from the root of a tree to a leaf."""
    return 0 if isinstance(tree, str) else 1 + max(depth_of(part) for part in tree)
