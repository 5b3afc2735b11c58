"""From a table to a problem: everything the samplers need to know about the data, once.

A *term* is a unit of selection: one column, or a block of columns (a factor) that enters and leaves together. The
*base* of every model is the intercept and the terms that are always in; its coefficients carry a flat prior, so it
is projected out once and for all. What remains of each candidate column is scaled to unit length, and a model is
evaluated from the Gram matrix of these columns: at a cost that does not depend on the number of rows.

May import: errors, priors, likelihoods, design.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from modejump.core.errors import InputError
from modejump.data.names import NumberedNames
from modejump.data.rows import LARGE_BYTES, as_if_writable
from modejump.likelihoods import Family, resolve_family
from modejump.likelihoods.columns import Conjugate, LikelihoodRows
from modejump.likelihoods.family import Table
from modejump.likelihoods.gaussian.tables import MixturePrior, tabulated
from modejump.likelihoods.glm.newton import BY_COLUMN, BY_ROW
from modejump.priors.coefficients import CoefPrior, CoefPriorData, resolve_coef_prior
from modejump.priors.coefficients.base import floor_share
from modejump.priors.compiled import ModelPriorArrays
from modejump.priors.models import ModelPrior, resolve_model_prior
from modejump.problem.checks import check_observations, checked_rows
from modejump.problem.design import (
    Columns,
    Layout,
    base_matrix,
    gram_matrix,
    project_base,
    rows_at_a_time,
    standardised_block,
    take_columns,
)

# Columns of a table whose rows are short: four lines of the cache.
_SHORT_ROW = 32


class Observed(NamedTuple):
    """Response, weights and offset as they were given, for the digest of the data."""

    y: np.ndarray
    weight: np.ndarray
    offset: np.ndarray


class ProblemData(NamedTuple):
    """The compiled kernels' view of a problem; made by `problem_data`.

    ``gram`` and ``corr`` give a conjugate family its likelihood, others a surrogate of it. Whether columns are
    independent is told by ``rank``, the Gram matrix of the columns themselves.
    """

    gram: np.ndarray
    corr: np.ndarray
    first: np.ndarray
    coef_prior: CoefPriorData | MixturePrior
    n: float
    base: int
    max_cols: int
    prior: ModelPriorArrays
    columns: Columns
    zobrist: np.ndarray
    glm: LikelihoodRows
    rank: np.ndarray


def problem_data(
    *,
    gram: np.ndarray,
    corr: np.ndarray,
    first: np.ndarray,
    coef_prior: CoefPrior,
    model_prior: ModelPriorArrays,
    columns: Columns,
    glm: LikelihoodRows,
    n: float,
    base: int,
    base_rss: float,
    noise_floor: float = 0.0,
    most: int | None = None,
    zobrist: np.ndarray | None = None,
) -> ProblemData:
    """The compiled kernels' view of a problem.

    ``gram`` and ``corr`` are products of the standardised candidates with each other and with the standardised
    response, and ``first`` has the first column of each term.
    """
    max_cols = min(max(int(np.ceil(n)) - base - 1, 0), len(corr) if most is None else most)
    # The table belongs to conjugate families: other marginal likelihoods do not depend on the residual share.
    if isinstance(glm, Conjugate):
        floor = floor_share(noise_floor, n, base_rss)
        prior: Any = tabulated(coef_prior, n, base, base_rss, max_cols, floor)
    else:
        prior = coef_prior.compile(n, base_rss)
    keys = term_keys(len(first) - 1) if zobrist is None else zobrist
    return ProblemData(
        gram=gram, corr=corr, first=first, coef_prior=prior, n=n, base=base, max_cols=max_cols, prior=model_prior,
        columns=columns, zobrist=keys, glm=glm, rank=gram,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Problem:
    """A selection problem: data, terms, base, and priors.

    Build one with :meth:`build`; ``data`` is what compiled kernels take.
    """

    names: tuple[str, ...]
    always_in: tuple[str, ...]
    intercept: bool
    coef_prior: CoefPrior
    model_prior: ModelPrior
    data: ProblemData
    base_rss: float
    base_coef: np.ndarray
    rows: int
    family: Family
    observed: Observed | None = None
    digest: str | None = None
    noise_floor: float = 0.0

    @property
    def n_terms(self) -> int:
        """Number of terms K that may enter or leave."""
        return len(self.names)

    @property
    def n_columns(self) -> int:
        """Number of candidate columns p (at least K, more with factors)."""
        return int(self.data.first[-1])

    @classmethod
    def build(
        cls,
        x: np.ndarray,
        y: np.ndarray,
        *,
        terms: Mapping[str, Sequence[int]] | None = None,
        always_in: Sequence[str] = (),
        weights: np.ndarray | None = None,
        coef_prior: Any = "g",
        model_prior: Any = "uniform",
        intercept: bool = True,
        parents: Sequence[Sequence[int]] | None = None,
        family: Any = "gaussian",
        link: str | None = None,
        offset: np.ndarray | None = None,
        noise_floor: float = 0.0,
    ) -> Problem:
        """Check the arrays, project the base out, and sum the Gram matrix.

        Parameters
        ----------
        x : ndarray of shape (n, columns)
            All columns, of candidate terms and of terms always in.
        y : ndarray of shape (n,)
            Response.
        terms : mapping of name to column indices, optional
            The units of selection, in order; default one term ``x0, x1, ...`` for each column.
        always_in : sequence of str
            Names of terms that are in every model, with a flat prior like the intercept's.
        weights : ndarray of shape (n,), optional
            Case weights: a row of weight 2 counts as two rows, so the number of observations is their sum.
        coef_prior, model_prior : str or prior object
            Prior of the coefficients given the model, and prior of the models.
        intercept : bool
            Whether every model has an intercept.
        parents : sequence of sequences of int, optional
            For heredity: the parents of each candidate term, as indices among the candidates. Default: from names.
        family : str, Family, OwnLikelihood or BatchLikelihood
            Family of the response, such as "gaussian", or a likelihood of your own.
        link : str, optional
            Link function; default the family's first.
        offset : ndarray of shape (n,), optional
            Part of the linear predictor that is known; not for Gaussian responses, where it is taken from y.
        noise_floor : float
            What the measurement cannot resolve, in units of a Gaussian response: every residual sum of squares grows
            by ``n * noise_floor**2``.
        """
        family = resolve_family(family, link)
        family.check_rows(weights, offset)
        family.check_floor(noise_floor)
        x, y, w, offset = checked_rows(x, y, weights, offset)
        family.check(y)
        if terms is None:
            terms = {name: [j] for j, name in enumerate(NumberedNames(x.shape[1]))}
        layout = Layout.of(terms, always_in)
        lent = _stays(x, family)
        order = layout.order if lent else None
        candidates = as_if_writable(x) if lent else take_columns(x, layout.order)
        n = float(w.sum())
        base = base_matrix(x, layout.fixed, intercept)
        check_observations(n, base.shape[1])
        columns, base_rss, base_coef = project_base(candidates, y, w, base, order, linear=family.conjugate)
        gram, corr = gram_matrix(columns, order)
        prior = resolve_coef_prior(coef_prior)
        family.check_prior(prior)
        compiled = _compile(model_prior, layout, parents)
        max_cols = min(max(int(np.ceil(n)) - base.shape[1] - 1, 0), len(corr))
        table = Table(
            layout.names, layout.always_in, layout.first, y, w, base, candidates, gram, max_cols, compiled,
            offset, lambda basis: _standardised(columns, base, basis, order),
        )  # fmt: skip
        family, glm = family.bind(table, prior.compile(n, base_rss), n)
        if lent:
            columns = columns._replace(x=np.empty((0, len(layout.order))), response=np.empty(0))
        data = problem_data(
            gram=gram, corr=corr, first=layout.first, coef_prior=prior, model_prior=compiled, columns=columns,
            glm=glm, n=n, base=base.shape[1], base_rss=base_rss, noise_floor=noise_floor,
        )  # fmt: skip
        return cls(
            names=layout.names, always_in=layout.always_in, intercept=intercept, coef_prior=prior,
            model_prior=resolve_model_prior(model_prior), data=data, base_rss=base_rss,
            base_coef=base_coef, rows=len(y), family=family, observed=Observed(y, w, offset), noise_floor=noise_floor,
        )  # fmt: skip

    @classmethod
    def from_products(
        cls,
        layout: Layout,
        columns: Columns,
        gram: np.ndarray,
        corr: np.ndarray,
        *,
        n: float,
        rows: int,
        base_rss: float,
        base_coef: np.ndarray,
        coef_prior: Any,
        model_prior: Any,
        digest: str | None = None,
    ) -> Problem:
        """A Gaussian problem with an intercept from the products of its columns, whose rows are elsewhere: in their
        place stands the factor of the base, and where fits may be near-perfect the factor of all columns.
        """
        family, base = resolve_family("gaussian"), len(columns.loading)
        check_observations(n, base)
        prior, compiled = resolve_coef_prior(coef_prior), _compile(model_prior, layout, None)
        data = problem_data(
            gram=gram, corr=corr, first=layout.first, coef_prior=prior, model_prior=compiled, columns=columns,
            glm=family.without_rows(base), n=n, base=base, base_rss=base_rss,
        )  # fmt: skip
        return cls(
            names=layout.names, always_in=layout.always_in, intercept=True, coef_prior=prior,
            model_prior=resolve_model_prior(model_prior), data=data, base_rss=base_rss,
            base_coef=base_coef, rows=rows, family=family, digest=digest,
        )  # fmt: skip

    def index_of(self, features: Sequence[str]) -> list[int]:
        """Indices of candidate terms by name; terms always in are passed over."""
        position = {name: j for j, name in enumerate(self.names)}
        wanted = [f for f in features if f not in self.always_in]
        for f in wanted:
            if f not in position:
                raise InputError(f"{f!r} is not a term of this problem; the terms are {', '.join(self.names[:8])}.")
        return sorted({position[f] for f in wanted})

    def dead_terms(self) -> list[str]:
        """Terms with a column that is constant or a linear combination of the base: they can enter no model."""
        dead = self.data.columns.scale == 0.0
        first = self.data.first
        return [name for j, name in enumerate(self.names) if dead[first[j] : first[j + 1]].any()]


def _compile(model_prior: Any, layout: Layout, parents: Sequence[Sequence[int]] | None) -> ModelPriorArrays:
    prior = resolve_model_prior(model_prior)
    return prior.compile(len(layout.names), names=layout.names, parents=parents, always_in=layout.always_in)


def _stays(x: np.ndarray, family: Family) -> bool:
    """Whether fits read the table where it lies: a large one of few columns, or with the columns one by one.

    From rows that are longer than a few lines of the cache, single columns are read at the cost of several.
    """
    if family.conjugate or family.custom or x.nbytes <= LARGE_BYTES:
        return False
    return bool(x.flags.f_contiguous or (x.flags.c_contiguous and x.shape[1] <= _SHORT_ROW))


def _standardised(columns: Columns, base: np.ndarray, basis: np.ndarray, order: np.ndarray | None) -> Mapping[str, Any]:
    """Candidate columns as fields of a `Glm`: standardised ones, or where an order is given the table as it is."""
    if order is None:
        rows, p = columns.x.shape
        x = np.empty((p, rows))
        step = rows_at_a_time(p)
        for start in range(0, rows, step):
            some = slice(start, min(rows, start + step))
            x[:, some] = (standardised_block(columns, some) / columns.root_weight[some, None]).T
        return {"x": x}
    by_column = columns.x.flags.f_contiguous
    with np.errstate(divide="ignore"):
        factor = np.where(columns.scale > 0, 1.0 / columns.scale, 0.0)
    return {
        "x": columns.x.T if by_column else columns.x,
        "layout": BY_COLUMN if by_column else BY_ROW,
        "place": order,
        "centre": np.ascontiguousarray((basis @ base) @ columns.loading),
        "factor": factor,
    }


def term_keys(terms: int) -> np.ndarray:
    """One fixed 64-bit key for each term; the xor of its terms' keys is a model's hash."""
    return np.random.SeedSequence(20211105).generate_state(terms, np.uint64) if terms else np.zeros(0, np.uint64)
