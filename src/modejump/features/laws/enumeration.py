"""All laws up to a complexity, each once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modejump.core.errors import InputError
from modejump.features.laws.expression import Feature
from modejump.features.laws.measures import COMMON_EXPONENTS, exponent_complexity

if TYPE_CHECKING:
    from modejump.features.laws.language import Laws

# Features and parts of features that are enumerated, at most.
MOST_FEATURES = 1_000_000


def all_laws(language: Laws, most: int) -> list[list[Feature]]:
    """Monomials of each complexity up to ``most``, whatever their depth and units.

    Parameters
    ----------
    language : Laws
        Covariates, functions, exponents, and limits of width and of the number of constants.
    most : int
        Largest complexity.

    Returns
    -------
    list of lists of Feature
        By complexity.
    """
    functions = [t.name for t in language.functions]
    exponents, width = language.exponents, language.limits.width
    # What factors cost where their exponents have another one in common, which costs something itself.
    shared = [(exponent_complexity(q), [exponent_complexity(e / q) for e in exponents]) for q in COMMON_EXPONENTS]
    monomials: list[list[Feature]] = [[] for _ in range(most + 1)]
    # Terms are grouped by their monomial and factors by their base: of each group one at most is taken.
    terms: list[list[tuple[Feature, Feature]]] = [[] for _ in range(most + 1)]
    factors: list[list[list[tuple[Feature, Feature]]]] = [[[] for _ in range(most + 1)] for _ in shared]
    sums: list[list[Feature]] = [[] for _ in range(most + 1)]
    made = 0
    for c in range(1, most + 1):
        # A sum of complexity c, and so an argument, has smaller terms than c; a single term may be of c - 1.
        sums[c] = [Feature.sum_(*some) for some in _sets(terms, c, width, 2, between=1)]
        bases = [Feature.covariate(name) for name in language.names] if c == 1 else []
        arguments = [*sums[c - 1], *(term for _, term in terms[c - 1])]
        bases += [f for name in functions for a in arguments if (f := _call(name, a)) is not None]
        bases += [s for s in sums[c] if _is_base(s)]
        for base in bases:
            for i, e in enumerate(exponents):
                if base.function == "exp" and e != 1:
                    continue
                factor = Feature.power(base, e)
                for levels, (_, cost) in zip(factors, shared, strict=True):
                    if c + cost[i] <= most:
                        levels[c + cost[i]].append((base, factor))
        products = {
            Feature.product(*some): None
            for levels, (extra, _) in zip(factors, shared, strict=True)
            for some in _sets(levels, c - extra, width, 1)
            if _is_product(some)
        }
        # With other exponents in common, some are less complex.
        monomials[c] = [f for f in products if f.complexity == c]
        _add_terms(terms, monomials[c], c, most, language.limits.max_constants)
        made += len(sums[c]) + len(monomials[c])
        if made > MOST_FEATURES:
            raise InputError(
                f"the space has more than {MOST_FEATURES} features of complexity up to {c}; give a smaller complexity, "
                "depth or width."
            )
    return monomials


def _add_terms(
    terms: list[list[tuple[Feature, Feature]]], monomials: Sequence[Feature], c: int, most: int, constants: int
) -> None:
    one = Feature.one()
    for f in [*monomials, *([one] if c == 1 else [])]:
        terms[c] += [(f, f), (f, Feature.minus(f))]
        if f.constants < constants:
            free = Feature.free(f)
            if free.complexity <= most:
                terms[free.complexity].append((f, free))


def _call(name: str, argument: Feature) -> Feature | None:
    """The function of an argument, None where that is not canonical."""
    try:
        made = Feature.call(name, argument)
    except InputError:
        return None
    return made if made.kind == "call" and made.children[0] is argument else None


def _is_base(total: Feature) -> bool:
    try:
        return Feature.power(total, 2).children[0] is total
    except InputError:
        return False


def _is_product(some: Sequence[Feature]) -> bool:
    """Whether factors are those of a product: no sum alone, and one exponential at most."""
    if len(some) == 1:
        return some[0].kind != "sum"
    return sum(f.function == "exp" for f in some) < 2


def _sets(
    levels: Sequence[Sequence[tuple[Feature, Feature]]], total: int, most: int, least: int, between: int = 0
) -> Iterator[tuple[Feature, ...]]:
    """Sets of items of different groups with this total complexity, ``between`` more for each but the first."""
    ranked = [(c, group, item) for c, level in enumerate(levels) for group, item in level]

    def extend(
        first: int, left: int, taken: tuple[Feature, ...], groups: frozenset[Feature]
    ) -> Iterator[tuple[Feature, ...]]:
        if left == 0 and len(taken) >= least:
            yield taken
        if left <= 0 or len(taken) == most:
            return
        for at in range(first, len(ranked)):
            c, group, item = ranked[at]
            spent = c + (between if taken else 0)
            if spent > left:
                break
            if group not in groups:
                yield from extend(at + 1, left - spent, (*taken, item), groups | {group})

    return extend(0, total, (), frozenset())
