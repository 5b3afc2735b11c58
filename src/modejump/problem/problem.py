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
from modejump.data.rows import LARGE_BYTES, as_if_writable
from modejump.likelihoods.custom.own import Own, RawTable
from modejump.likelihoods.families import Family, resolve_family
from modejump.likelihoods.gaussian.marginal import MarginalTable, make_table
from modejump.likelihoods.glm.laplace import fit_columns
from modejump.likelihoods.glm.newton import BY_COLUMN, BY_ROW, Glm, has_estimate, new_glm_work, no_glm, standardised
from modejump.priors import codes
from modejump.priors.coefficients import CoefPrior, resolve_coef_prior
from modejump.priors.compiled import ModelPriorArrays
from modejump.priors.models import CompiledModelPrior, ModelPrior, resolve_model_prior
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
    """The compiled kernels' view of a problem; frozen.

    ``gram`` and ``corr`` give a Gaussian response its likelihood, other responses a surrogate of it. Whether columns
    are independent is told by ``rank``, the Gram matrix of the columns themselves.
    """

    gram: np.ndarray
    corr: np.ndarray
    first: np.ndarray
    code: int
    par: np.ndarray
    n: float
    base: int
    max_cols: int
    table: MarginalTable
    prior: ModelPriorArrays
    columns: Columns
    zobrist: np.ndarray
    log_one_plus_g: float
    glm: Glm
    rank: np.ndarray


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
    compiled_prior: CompiledModelPrior
    data: ProblemData
    base_rss: float
    base_coef: np.ndarray
    rows: int
    family: Family = resolve_family("gaussian")
    observed: Observed | None = None
    digest: str | None = None

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
    ) -> Problem:
        """Check the arrays, project the base out, and sum the Gram matrix.

        Parameters
        ----------
        x : ndarray of shape (n, columns)
            All columns, of candidate terms and of terms always in.
        y : ndarray of shape (n,)
            Response.
        terms : mapping of name to column indices, optional
            The units of selection, in order; default one term ``x1, x2, ...`` for each column.
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
            Family of the response: "gaussian", "binomial", "poisson" or "gamma"; or a likelihood of your own.
        link : str, optional
            Link function; default the family's first.
        offset : ndarray of shape (n,), optional
            Part of the linear predictor that is known; not for Gaussian responses, where it is taken from y.
        """
        family = resolve_family(family, link)
        family.check_rows(weights, offset)
        offset = checked_offset(offset, family, y)
        x, y, w, offset = kept_rows(x, y, weights, offset)
        family.check(y)
        if terms is None:
            terms = {f"x{j + 1}": [j] for j in range(x.shape[1])}
        layout = Layout.of(terms, always_in)
        lent = _stays(x, family)
        order = layout.order if lent else None
        candidates = as_if_writable(x) if lent else take_columns(x, layout.order)
        n = float(w.sum())
        base = base_matrix(x, layout.fixed, intercept)
        check_observations(n, base.shape[1])
        columns, base_rss, base_coef = project_base(candidates, y, w, base, order, linear=family.name == "gaussian")
        gram, corr = gram_matrix(columns, order)
        prior = resolve_coef_prior(coef_prior)
        model_prior = resolve_model_prior(model_prior)
        compiled = _compile(model_prior, layout, parents)
        max_cols = _most_columns(n, base.shape[1], len(layout.order))
        raw = RawTable(
            layout.names, layout.always_in, layout.first, y, w, base, candidates, gram, max_cols, compiled.arrays
        )
        family, glm = _likelihood(family, raw, offset, columns, prior, prior.parameters(n, base_rss), n, order)
        if lent:
            columns = columns._replace(x=np.empty((0, len(layout.order))), response=np.empty(0))
        return cls._of(
            layout, intercept, prior, model_prior, compiled, columns, (gram, corr), n, base_rss, base_coef, x.shape[0],
            family, glm, Observed(y, w, offset), None,
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
        """A Gaussian problem with an intercept from the products of its columns, whose rows are elsewhere.

        Parameters
        ----------
        layout : Layout
            Candidates and terms always in.
        columns : Columns
            Loadings and lengths of the candidates; in place of the rows the factor of the base, and where fits may be
            near-perfect the factor of all columns.
        gram, corr : ndarray
            Products of the standardised candidates with each other and with the standardised response.
        n : float
            Observations.
        rows : int
            Rows.
        base_rss : float
            Residual sum of squares of the base model.
        base_coef : ndarray
            Its coefficients.
        coef_prior, model_prior : str or prior object
            The priors.
        digest : str, optional
            Digest of the rows.
        """
        check_observations(n, columns.loading.shape[0])
        prior, model_prior = resolve_coef_prior(coef_prior), resolve_model_prior(model_prior)
        compiled = _compile(model_prior, layout, None)
        return cls._of(
            layout, True, prior, model_prior, compiled, columns, (gram, corr), n, base_rss, base_coef, rows,
            resolve_family("gaussian"), no_glm(), None, digest,
        )  # fmt: skip

    @classmethod
    def _of(
        cls,
        layout: Layout,
        intercept: bool,
        prior: CoefPrior,
        model_prior: ModelPrior,
        compiled: CompiledModelPrior,
        columns: Columns,
        products: tuple[np.ndarray, np.ndarray],
        n: float,
        base_rss: float,
        base_coef: np.ndarray,
        rows: int,
        family: Family,
        glm: Glm,
        observed: Observed | None,
        digest: str | None,
    ) -> Problem:
        """The problem of these parts."""
        base, par = columns.loading.shape[0], prior.parameters(n, base_rss)
        max_cols = _most_columns(n, base, len(layout.order))
        # The table belongs to Gaussian responses; a code without a mixture makes an empty one.
        code = prior.code if family.name == "gaussian" else codes.BIC
        data = ProblemData(
            *products, layout.first, prior.code, par, n, base, max_cols, make_table(code, par, n, base, max_cols),
            compiled.arrays, columns, term_keys(len(layout.names)),
            float(np.log1p(par[0])) if prior.code == codes.G else 0.0, glm, products[0],
        )  # fmt: skip
        return cls(
            layout.names, layout.always_in, intercept, prior, model_prior, compiled, data, base_rss, base_coef, rows,
            family, observed, digest,
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


def check_observations(n: float, base: int) -> None:
    """At least one observation more than columns that are always in."""
    if n - base < 1:
        raise InputError(
            f"the data have {n:g} observations for {base} columns that are always in "
            "(intercept included); give more rows or fewer such terms."
        )


def _compile(model_prior: ModelPrior, layout: Layout, parents: Sequence[Sequence[int]] | None) -> CompiledModelPrior:
    return model_prior.compile(len(layout.names), names=layout.names, parents=parents, always_in=layout.always_in)


def _most_columns(n: float, base: int, candidates: int) -> int:
    """Columns that a model can have beyond the base, with a degree of freedom left."""
    return min(max(int(np.ceil(n)) - base - 1, 0), candidates)


def checked_arrays(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None, constant: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, response and weights of the rows that count; one sentence where they cannot be used.

    A ``constant`` response says something where an offset varies: one event for each row, say, and how long it took.
    """
    x = np.asarray(x, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    if x.ndim != 2 or y.ndim != 1:
        raise InputError(f"X must be a table and y one column; got arrays of {x.ndim} and {y.ndim} dimensions.")
    if x.shape[0] != y.shape[0]:
        raise InputError(f"X has {x.shape[0]} rows but y has {y.shape[0]}; give one response for each row.")
    for name, values in (("X", x), ("y", y)):
        if not np.isfinite(values.sum()) and not np.isfinite(values).all():
            raise InputError(f"{name} holds NaN or infinite values; drop or impute these rows first.")
    w = _checked_weights(weights, x.shape[0])
    if weights is not None and not (w > 0).all():
        keep = w > 0
        x, y, w = x[keep], y[keep], w[keep]
    if x.shape[0] < 2:
        raise InputError(
            f"the data have {x.shape[0]} row(s) of positive weight; selection needs at least 2 (n_samples = 1)."
        )
    if np.ptp(y) == 0.0 and not constant:
        raise InputError("y is constant, so there is nothing to explain; check the target column.")
    return x, y, w


def checked_offset(offset: np.ndarray | None, family: Family, y: np.ndarray) -> np.ndarray:
    """The offset as numbers, zeros where there is none."""
    rows = np.shape(y)
    if offset is None:
        return np.zeros(rows)
    if family.name == "gaussian":
        raise InputError("an offset is for families other than gaussian; take it from y instead.")
    values = np.asarray(offset, dtype=np.float64)
    if values.shape != rows:
        raise InputError(f"offset has shape {values.shape} but y has {rows[0]} rows; give one number for each row.")
    if not np.isfinite(values).all():
        raise InputError("offset holds NaN or infinite values; give finite numbers.")
    return values


def kept_rows(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None, offset: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Checked arrays of the rows of positive weight, the offset among them."""
    x, y, w = checked_arrays(x, y, weights, constant=bool(len(offset)) and np.ptp(offset) > 0.0)
    if weights is not None and len(offset) > len(w):
        offset = offset[np.asarray(weights, dtype=np.float64) > 0]
    return x, y, w, offset


def _stays(x: np.ndarray, family: Family) -> bool:
    """Whether fits read the table where it lies: a large one of few columns, or with the columns one by one.

    From rows that are longer than a few lines of the cache, single columns are read at the cost of several.
    """
    if family.name == "gaussian" or isinstance(family, Own) or x.nbytes <= LARGE_BYTES:
        return False
    return bool(x.flags.f_contiguous or (x.flags.c_contiguous and x.shape[1] <= _SHORT_ROW))


def _likelihood(
    family: Family,
    raw: RawTable,
    offset: np.ndarray,
    columns: Columns,
    prior: CoefPrior,
    par: np.ndarray,
    n: float,
    order: np.ndarray | None,
) -> tuple[Family, Glm]:
    """What the family needs beyond the Gram matrix, and the family as one that knows the problem."""
    if family.name == "gaussian":
        return family, no_glm()
    family.check_prior(prior)
    if isinstance(family, Own):
        return own_base(family.bind(raw))
    glm = _glm(family, raw.y, raw.w, offset, raw.base, columns, order)
    return family, fitted_base(family, glm, prior.code, par, n)


def own_base(bound: tuple[Own, Glm]) -> tuple[Own, Glm]:
    """A likelihood of the user's own that is bound to a problem, with its base model evaluated."""
    family, glm = bound
    value = fit_columns(glm, new_glm_work(glm, 1), np.zeros(0, np.int64), 0, np.zeros(4), 0.0)
    if not np.isfinite(value):
        raise InputError(
            "the likelihood of the model of the intercept and the terms that are always in is zero or no number; check "
            "y, the function, and its params."
        )
    glm.null[0] = value
    return family, glm


def _glm(
    family: Family,
    y: np.ndarray,
    w: np.ndarray,
    offset: np.ndarray,
    base: np.ndarray,
    columns: Columns,
    order: np.ndarray | None,
) -> Glm:
    """Response and columns of a generalised linear model: standardised ones, or where an order is given the table."""
    if order is None:
        rows, p = columns.x.shape
        x = np.empty((p, rows))
        step = rows_at_a_time(p)
        for start in range(0, rows, step):
            some = slice(start, min(rows, start + step))
            x[:, some] = (standardised_block(columns, some) / columns.root_weight[some, None]).T
        return new_glm(family, y, w, offset, base, x)
    by_column = columns.x.flags.f_contiguous
    glm = new_glm(family, y, w, offset, base, columns.x.T if by_column else columns.x)
    with np.errstate(divide="ignore"):
        factor = np.where(columns.scale > 0, 1.0 / columns.scale, 0.0)
    return glm._replace(
        layout=BY_COLUMN if by_column else BY_ROW,
        place=order,
        centre=np.ascontiguousarray((glm.base @ base) @ columns.loading),
        factor=factor,
    )


def new_glm(family: Family, y: np.ndarray, w: np.ndarray, offset: np.ndarray, base: np.ndarray, x: np.ndarray) -> Glm:
    """A generalised linear model of these candidate columns, whose base model is not fitted yet."""
    basis = np.ascontiguousarray(np.linalg.qr(base)[0].T) if base.shape[1] else np.zeros((0, len(y)))
    return Glm(
        np.ascontiguousarray(y), w, offset, basis, x, np.zeros(0), np.zeros(len(basis)), np.zeros(1), family.code,
        family.link_code, int((w == 1.0).all()), int((offset == 0.0).all()), np.zeros(0), 0, 0, *standardised(),
    )  # fmt: skip


def fitted_base(family: Family, glm: Glm, code: int, par: np.ndarray, n: float) -> Glm:
    """The same model with its base model fitted, or one sentence where that has no fit."""
    basis = glm.base
    for guess in family.first_guesses(glm.y, glm.weight, glm.offset):
        glm.start[:] = basis @ guess
        work = new_glm_work(glm, 1)
        value = fit_columns(glm, work, np.zeros(0, np.int64), code, par, n)
        if np.isfinite(value) and has_estimate(work):
            break
    else:
        raise InputError(
            "the model of the intercept and the terms that are always in has no maximum likelihood estimate; check y, "
            "the offset, and these terms."
        )
    glm.start[:] = work.beta[: len(basis)]
    glm.null[0] = value
    return glm


def _checked_weights(weights: np.ndarray | None, rows: int) -> np.ndarray:
    if weights is None:
        return np.ones(rows)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (rows,):
        raise InputError(f"sample_weight has shape {w.shape} but X has {rows} rows; give one weight for each row.")
    if not np.isfinite(w).all():
        raise InputError("sample_weight holds NaN or infinite values; give finite weights.")
    if (w < 0).any():
        raise InputError(f"sample_weight is negative in row {int(np.argmax(w < 0))}; weights count observations.")
    if not (w > 0).any():
        raise InputError("sample_weight is zero everywhere, so no observation is left; give positive weights.")
    return w


def term_keys(terms: int) -> np.ndarray:
    """One fixed 64-bit key for each term; the xor of its terms' keys is a model's hash."""
    return np.random.SeedSequence(20211105).generate_state(terms, np.uint64) if terms else np.zeros(0, np.uint64)
