"""From a table to a problem: everything the samplers need to know about the data, once.

A *term* is a unit of selection: one column, or a block of columns (a factor) that enters and leaves together. The
*base* of every model is the intercept and the terms that are always in; its coefficients carry a flat prior, so it
is projected out once and for all. What remains of each candidate column is scaled to unit length, and a model is
evaluated from the Gram matrix of these columns: at a cost that does not depend on the number of rows.

May import: errors, priors, likelihoods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from modejump.errors import InputError
from modejump.likelihoods.families import Family, resolve_family
from modejump.likelihoods.gaussian import MarginalTable, make_table
from modejump.likelihoods.glm import Glm, has_estimate, new_glm_work, no_glm
from modejump.likelihoods.laplace import fit_columns
from modejump.likelihoods.own import Own, RawTable
from modejump.priors import codes
from modejump.priors.coefficients import CoefPrior, resolve_coef_prior
from modejump.priors.kernels import ModelPriorArrays
from modejump.priors.models import CompiledModelPrior, ModelPrior, resolve_model_prior

# A column whose part outside the base is smaller than this share of its length is taken as dependent on the base.
BASE_TOLERANCE = 1e-7
# Bytes of one block of columns while the base is projected out, and of one block of rows while they are standardised.
_CHUNK_BYTES = 32 * 2**20
_ROWS_BYTES = 8 * 2**20


class Columns(NamedTuple):
    """The raw columns behind the Gram matrix, for refining near-perfect fits; of Gaussian responses only.

    The standardised candidate column j is ``root_weight * (x[:, j] - base @ loading[:, j]) / scale[j]``.
    """

    x: np.ndarray
    base: np.ndarray
    loading: np.ndarray
    scale: np.ndarray
    root_weight: np.ndarray
    response: np.ndarray


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
        offset = _checked_offset(offset, family, y)
        x, y, w, offset = _kept_rows(x, y, weights, offset)
        family.check(y)
        if terms is None:
            terms = {f"x{j + 1}": [j] for j in range(x.shape[1])}
        unknown = [name for name in always_in if name not in terms]
        if unknown:
            raise InputError(
                f"always_in names {unknown[0]!r}, which is not a term; the terms are {', '.join(list(terms)[:8])}."
            )
        fixed = [j for name in always_in for j in terms[name]]
        names = tuple(name for name in terms if name not in set(always_in))
        first = np.concatenate([[0], np.cumsum([len(terms[name]) for name in names])]).astype(np.int64)
        order = np.array([j for name in names for j in terms[name]], dtype=np.int64)
        candidates = _take_columns(x, order)
        n = float(w.sum())
        base = _base_matrix(x, fixed, intercept)
        if n - base.shape[1] < 1:
            raise InputError(
                f"the data have {n:g} observations for {base.shape[1]} columns that are always in "
                "(intercept included); give more rows or fewer such terms."
            )
        columns, base_rss, base_coef = project_base(candidates, y, w, base)
        gram, corr = _gram(columns)
        prior = resolve_coef_prior(coef_prior)
        model_prior = resolve_model_prior(model_prior)
        compiled = model_prior.compile(len(names), names=names, parents=parents, always_in=tuple(always_in))
        par = prior.parameters(n, base_rss)
        max_cols = min(max(int(np.ceil(n)) - base.shape[1] - 1, 0), len(order))
        raw = RawTable(names, tuple(always_in), first, y, w, base, candidates, gram, max_cols, compiled.arrays)
        family, glm, columns = _likelihood(family, raw, offset, columns, prior, par, n)
        # The table belongs to Gaussian responses; a code without a mixture makes an empty one.
        code = prior.code if family.name == "gaussian" else codes.BIC
        table = make_table(code, par, n, base.shape[1], max_cols)
        data = ProblemData(
            gram, corr, first, prior.code, par, n, base.shape[1], max_cols, table, compiled.arrays, columns,
            _zobrist(len(names)), float(np.log1p(par[0])) if prior.code == codes.G else 0.0, glm, gram,
        )  # fmt: skip
        return cls(
            names, tuple(always_in), intercept, prior, model_prior, compiled, data, base_rss, base_coef, x.shape[0],
            family,
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


def checked_arrays(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, response and weights of the rows that count; one sentence where they cannot be used."""
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
    if np.ptp(y) == 0.0:
        raise InputError("y is constant, so there is nothing to explain; check the target column.")
    return x, y, w


def _checked_offset(offset: np.ndarray | None, family: Family, y: np.ndarray) -> np.ndarray:
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


def _kept_rows(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None, offset: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Checked arrays of the rows of positive weight, the offset among them."""
    x, y, w = checked_arrays(x, y, weights)
    if weights is not None and len(offset) > len(w):
        offset = offset[np.asarray(weights, dtype=np.float64) > 0]
    return x, y, w, offset


def _likelihood(
    family: Family, raw: RawTable, offset: np.ndarray, columns: Columns, prior: CoefPrior, par: np.ndarray, n: float
) -> tuple[Family, Glm, Columns]:
    """The family as one that knows the problem, what it needs beyond the Gram matrix, and the columns it still has."""
    if family.name == "gaussian":
        return family, no_glm(), columns
    family.check_prior(prior)
    # Fits have the columns in another order: two copies of a long table would be one too many.
    rest = columns._replace(x=np.zeros((0, columns.x.shape[1])), root_weight=np.zeros(0), response=np.zeros(0))
    if isinstance(family, Own):
        return *own_base(family.bind(raw)), rest
    return family, _glm(family, raw.y, raw.w, offset, raw.base, columns, prior.code, par, n), rest


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
    code: int,
    par: np.ndarray,
    n: float,
) -> Glm:
    """Response and standardised columns of a generalised linear model, with its base model fitted."""
    rows, p = columns.x.shape
    x = np.empty((p, rows))
    step = _rows_at_a_time(p)
    for start in range(0, rows, step):
        some = slice(start, min(rows, start + step))
        x[:, some] = (standardised_block(columns, some) / columns.root_weight[some, None]).T
    return fitted_base(family, y, w, offset, base, x, np.zeros(0), code, par, n)


def fitted_base(
    family: Family,
    y: np.ndarray,
    w: np.ndarray,
    offset: np.ndarray,
    base: np.ndarray,
    x: np.ndarray,
    unroot: np.ndarray,
    code: int,
    par: np.ndarray,
    n: float,
) -> Glm:
    """A generalised linear model whose base model is fitted, or one sentence where that has no fit."""
    basis = np.ascontiguousarray(np.linalg.qr(base)[0].T) if base.shape[1] else np.zeros((0, len(y)))
    unit = int((w == 1.0).all())
    glm = Glm(
        np.ascontiguousarray(y), w, offset, basis, x, unroot, np.zeros(len(basis)), np.zeros(1), family.code,
        family.link_code, unit, int((offset == 0.0).all()), np.zeros(0), 0, 0,
    )  # fmt: skip
    if len(basis):
        glm.start[:] = basis @ family.first_guess(y, w, offset)
    work = new_glm_work(glm, 1)
    value = fit_columns(glm, work, np.zeros(0, np.int64), code, par, n)
    if not (np.isfinite(value) and has_estimate(work)):
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


def _take_columns(x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The candidate columns, without a copy where they are all columns in place."""
    if len(order) == x.shape[1] and (order == np.arange(x.shape[1])).all():
        return np.ascontiguousarray(x)
    return np.ascontiguousarray(x[:, order])


def _base_matrix(x: np.ndarray, fixed: list[int], intercept: bool) -> np.ndarray:
    parts = [np.ones((x.shape[0], 1))] if intercept else []
    if fixed:
        parts.append(x[:, fixed])
    return np.ascontiguousarray(np.hstack(parts)) if parts else np.empty((x.shape[0], 0))


def project_base(x: np.ndarray, y: np.ndarray, w: np.ndarray, base: np.ndarray) -> tuple[Columns, float, np.ndarray]:
    """Loadings of each column on the base and the length of what is left; the response likewise."""
    root = np.sqrt(w)
    q, r = np.linalg.qr(base * root[:, None])
    diagonal = np.abs(np.diag(r))
    lengths = np.sqrt(np.einsum("i,ij,ij->j", w, base, base))
    if base.shape[1] and (diagonal <= BASE_TOLERANCE * lengths).any():
        raise InputError(
            "the terms that are always in are linearly dependent (with the intercept); remove one of them."
        )

    def project(block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weighted = block * root[:, None]
        coef = np.linalg.solve(r, q.T @ weighted) if base.shape[1] else np.zeros((0, block.shape[1]))
        rest = weighted - (base * root[:, None]) @ coef
        # A second pass removes what rounding left of a large mean.
        again = np.linalg.solve(r, q.T @ rest) if base.shape[1] else coef
        return coef + again, rest - (base * root[:, None]) @ again

    p = x.shape[1]
    loading = np.zeros((base.shape[1], p))
    scale = np.zeros(p)
    step = max(1, _CHUNK_BYTES // (8 * x.shape[0]))
    for start in range(0, p, step):
        stop = min(p, start + step)
        block = x[:, start:stop]
        loading[:, start:stop], rest = project(block)
        length = np.linalg.norm(rest, axis=0)
        total = np.linalg.norm(block * root[:, None], axis=0)
        scale[start:stop] = np.where(length > BASE_TOLERANCE * total, length, 0.0)
    coef, rest_y = project(y[:, None])
    length_y = float(np.linalg.norm(rest_y))
    if length_y <= 1e-12 * float(np.linalg.norm(y * root)):
        raise InputError("the terms that are always in fit y perfectly, so there is nothing left to select.")
    columns = Columns(x, base, loading, scale, root, np.ascontiguousarray(rest_y[:, 0] / length_y))
    return columns, length_y**2, coef[:, 0]


def standardised_block(columns: Columns, rows: slice) -> np.ndarray:
    """Standardised candidate columns of some rows; dependent columns are zero."""
    scale = np.where(columns.scale > 0, columns.scale, np.inf)
    z = columns.x[rows] - columns.base[rows] @ columns.loading
    z *= columns.root_weight[rows, None]
    z /= scale
    return z


def _rows_at_a_time(p: int) -> int:
    """Rows of p columns that fit the scratch space."""
    return max(64, _ROWS_BYTES // (8 * max(p, 1)))


def _gram(columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrix of the standardised columns and their products with the response, summed over blocks of rows."""
    n, p = columns.x.shape
    gram = np.zeros((p, p))
    corr = np.zeros(p)
    step = _rows_at_a_time(p)
    for start in range(0, n, step):
        rows = slice(start, min(n, start + step))
        z = standardised_block(columns, rows)
        gram += z.T @ z
        corr += columns.response[rows] @ z
    alive = np.flatnonzero(columns.scale > 0)
    gram[alive, alive] = 1.0
    return gram, corr


def _zobrist(terms: int) -> np.ndarray:
    """One fixed 64-bit key for each term; the xor of its terms' keys is a model's hash."""
    return np.random.SeedSequence(20211105).generate_state(terms, np.uint64) if terms else np.zeros(0, np.uint64)
