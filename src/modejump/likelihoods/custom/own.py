"""Likelihoods of the user's own: a Numba function of the columns, or a Python function that scores models by name.

Compiled code holds the address of a C function and calls it for each model, so that another likelihood needs no other
engine. All such functions have one signature,

    double f(double *y, double *X, int64 n, int64 m, double *weights, double *params, int64 n_params),

with X column after column. That of a Numba function is Numba's own and takes no interpreter lock; that of a Python
function takes the lock, and its X is one row that holds the numbers of the model's terms.

An exception cannot cross compiled code. It is kept for its thread, the C function returns plus infinity, and compiled
code raises `LikelihoodError`, which says what was kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import textwrap
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numba import carray, cfunc, farray, njit, types
from numba.core import cgutils
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numba.extending import intrinsic, is_jitted

from modejump.core.compilation import implements, kernel
from modejump.core.errors import InputError
from modejump.likelihoods.columns import fit_columns, log_marginal_of_columns
from modejump.likelihoods.family import Family, Table
from modejump.likelihoods.gaussian.family import IDENTITY
from modejump.likelihoods.glm.newton import new_glm_work
from modejump.priors.coefficients import CoefPrior, CoefPriorData, resolve_coef_prior

Model = tuple[str, ...]

_ADDRESS, _SIZE = ctypes.c_void_p, ctypes.c_int64
SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_double, _ADDRESS, _ADDRESS, _SIZE, _SIZE, _ADDRESS, _ADDRESS, _SIZE)
_POINTER = types.CPointer(types.float64)
_NATIVE: Any = types.float64(_POINTER, _POINTER, types.int64, types.int64, _POINTER, _POINTER, types.int64)
_COLUMN, _TABLE = types.float64[::1], types.float64[::1, :]
_ARGUMENTS = (_COLUMN, _TABLE, _COLUMN, _COLUMN)
# What a C function returns where there is an exception.
FAILED = math.inf

kept = threading.local()


class CustomRows(NamedTuple):
    """What compiled code needs to call the function: columns, and addresses of C functions."""

    y: np.ndarray  # float64 (n,)
    weight: np.ndarray  # float64 (n,)
    base: np.ndarray  # float64 (b, n): columns of every model
    x: np.ndarray  # float64 (p, n): the others; where Python is asked one row with the number of each column's term
    params: np.ndarray  # float64 (q,)
    address: int  # of the function
    report: int  # of what explains its exceptions
    null: float = 0.0  # log marginal likelihood of the base model
    # Nothing lies in a table that nobody has copied.
    layout: int = 0

    @property
    def candidates(self) -> int:
        """Number of candidate columns."""
        return len(self.x)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    def with_order(self, cols: np.ndarray) -> CustomRows:
        """The same with its candidate columns in another order."""
        return self._replace(x=np.ascontiguousarray(self.x[cols]))


class LikelihoodError(InputError):
    """A likelihood of the user's own raised an exception or returned what is no number; its cause is the exception."""

    def __init__(self, *args: object) -> None:
        if args:
            super().__init__(*args)
            return
        # Compiled code raises the class without arguments, and Numba makes an instance twice: what was kept stays.
        error, text = kept.error, kept.text
        if not isinstance(error, Exception):
            # An interruption stays one: what is raised here takes this error's place.
            raise error
        super().__init__(text)
        self.__cause__ = error


def keep_error(models: str, error: BaseException) -> None:
    """Keep an exception of this thread, and the models that it is about, for `LikelihoodError`."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    kept.error = error
    kept.text = (
        f"the likelihood of {models} failed with {reason}; mend the function, or let it return -inf for a model that "
        "cannot be fitted."
    )


class Own(Family):
    """What likelihoods of the user's own share: no link, no coefficient prior, no offset."""

    links = (IDENTITY,)
    custom = True
    # Of a problem: the C functions, which must outlive every call. Empty before there is one.
    alive: tuple[Any, ...] = ()

    # Two functions with the same name are two likelihoods.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __deepcopy__(self, memo: dict[int, Any]) -> Own:
        return self

    def arguments(self) -> tuple[Any, ...]:
        """What makes the same likelihood again."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        if self.alive:
            raise TypeError(
                "a problem with a likelihood of your own holds addresses of functions, which mean nothing elsewhere; "
                "build it again there."
            )
        return type(self), self.arguments()

    def words(self) -> str:
        """The likelihood, for a summary."""
        return f"any, under {self!r}"

    def check_prior(self, prior: CoefPrior) -> None:
        """Refuse a coefficient prior: the function's value has the coefficients integrated out."""
        # The defaults of the estimators: nobody chose these.
        if prior not in (resolve_coef_prior("g"), resolve_coef_prior("jzs")):
            raise InputError(
                "a likelihood of your own has the coefficients integrated out, so that they have no prior to choose; "
                "leave coef_prior at its default."
            )

    def check_rows(self, weights: Any, offset: Any) -> None:
        """Refuse what the function would not see."""
        if offset is not None:
            raise InputError("a likelihood of your own takes no offset; put it into the function or its params.")
        if weights is not None and (np.asarray(weights) == 0).any():
            raise InputError(
                "weights are zero in some rows, which the function would not see; drop them first, from params too."
            )

    def predictor(self, mean: np.ndarray) -> NoReturn:
        """Not known."""
        raise InputError("a likelihood of your own has no link, so that nothing can be predicted from it.")

    def mean(self, predictor: np.ndarray) -> NoReturn:
        """Not known."""
        self.predictor(predictor)

    def bind(self, table: Table, prior: CoefPriorData, n: float) -> tuple[Family, CustomRows]:
        """This likelihood for the terms and columns of a problem, with the value of its base model."""
        bound, rows = self.connect(table)
        value = float(fit_columns(rows, new_glm_work(rows, 1), np.zeros(0, np.int64), prior, n))
        if not np.isfinite(value):
            raise InputError(
                "the likelihood of the model of the intercept and the terms that are always in is zero or no number; "
                "check y, the function, and its params."
            )
        return bound, rows._replace(null=value)

    def connect(self, table: Table) -> tuple[Own, CustomRows]:
        """This likelihood with C functions of this process."""
        raise NotImplementedError

    def without_rows(self, base: int) -> CustomRows:
        """Nothing can be evaluated."""
        none = np.zeros(0)
        return CustomRows(none, none, np.eye(base), np.zeros((0, 0)), none, 0, 0)

    def for_features(
        self, rows: CustomRows, shape: tuple[int, int], texts: Callable[[Any], Model]
    ) -> tuple[CustomRows, Any]:
        """The same with room for what the function is shown of features, and a C function to keep alive."""
        return rows._replace(x=np.zeros(shape)), None


class StoredLikelihood(Own):
    """What a saved run remembers of a likelihood of the user's own: how it was written, and not the function."""

    name = "stored likelihood"

    def __init__(self, text: str) -> None:
        super().__init__()
        self.likelihood = text

    def __repr__(self) -> str:
        return self.likelihood

    def arguments(self) -> tuple[Any, ...]:
        """What makes the same likelihood again."""
        return (self.likelihood,)

    def check_rows(self, weights: Any, offset: Any) -> None:
        """Nothing can be fitted again."""
        raise InputError(
            f"a saved run holds no functions, and {self!r} was its likelihood; give the likelihood again as family."
        )


class OwnLikelihood(Own):
    """A likelihood written as a Numba function, called by compiled code at native speed.

    Give it as ``family`` of an estimator or a problem. The engine is the same for all such functions: only the function
    itself is compiled. A value that is NaN or infinite counts as probability zero; an exception ends the run.

    Parameters
    ----------
    function : callable
        ``f(y, X, weights, params)``, the log marginal likelihood of a model: ``y`` and ``weights`` have one entry for
        each row, ``X`` one column for each column of the model, those of the base first (the intercept, then what is
        always in), on their original scale and in Fortran order. Columns of features come in no particular order, on
        which the value must not depend. The function must not write into what it is given, and it must be a function
        of that alone: several threads may call it at a time. A plain Python function is compiled with ``numba.njit``.
    params : array-like of float, optional
        Passed on as an array of one dimension.

    Examples
    --------
    >>> def log_likelihood(y, X, weights, params):
    ...     rest = y - X @ np.linalg.solve(X.T @ X, X.T @ y)
    ...     return -0.5 * len(y) * np.log(rest @ rest) - 0.5 * params[0] * X.shape[1]
    >>> OwnLikelihood(log_likelihood, params=[np.log(100)])
    OwnLikelihood(log_likelihood, 1 parameter)
    """

    name = "own likelihood"
    # By Numba, and as a C function; once for all problems.
    _compiled: tuple[Any, ...] = ()

    def __init__(self, function: Callable[..., float], params: Any = ()) -> None:
        super().__init__()
        if not callable(function):
            raise InputError(f"an own likelihood is a function f(y, X, weights, params); got {function!r}.")
        try:
            values = np.array(params, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("params of an own likelihood must be numbers; give an array of floats.") from None
        if values.ndim > 1:
            raise InputError(f"params of an own likelihood must have one dimension, not {values.ndim}; use np.ravel.")
        self.function, self.params = function, np.ascontiguousarray(values.reshape(-1))

    def __repr__(self) -> str:
        size = len(self.params)
        name = getattr(self.function, "__name__", "function")
        return f"OwnLikelihood({name}, {size} parameter{'' if size == 1 else 's'})"

    def arguments(self) -> tuple[Any, ...]:
        """What makes the same likelihood again."""
        return self.function, self.params

    def connect(self, table: Table) -> tuple[Own, CustomRows]:
        """This likelihood with C functions of this process."""
        names, always_in, first = table.names, table.always_in, table.first
        raw = np.ascontiguousarray(table.candidates.T)
        self._compiled = self._compiled or _compiled(self.function)
        compiled, native = self._compiled

        def describe(x: np.ndarray) -> str:
            """The terms with these columns: for the sentence of an error."""
            inside = [any(np.array_equal(row, column) for column in x.T) for row in raw]
            present = [name for i, name in enumerate(names) if all(inside[first[i] : first[i + 1]])]
            known = sum(int(first[i + 1] - first[i]) for i, name in enumerate(names) if name in present)
            # A model of features has columns that the table has not.
            others = x.shape[1] - table.base.shape[1] - known
            more = [f"{others} more feature{'' if others == 1 else 's'}"] if others > 0 else []
            return f"the model ({', '.join([*always_in, *present, *more])})"

        def explain(y: int, x: int, n: int, m: int, w: int, params: int, q: int) -> float:
            """Call the function again, from Python, for the exception that compiled code could not keep."""
            columns = array_at(x, n * m).reshape(m, n).T
            try:
                compiled(array_at(y, n), columns, array_at(w, n), array_at(params, q))
                raise RuntimeError("an exception that did not come again")
            except BaseException as error:
                keep_error(describe(columns), error)
                return FAILED

        report = SIGNATURE(explain)
        bound = OwnLikelihood(self.function, self.params)
        bound._compiled, bound.alive = self._compiled, (native, report)
        base = np.ascontiguousarray(table.base.T)
        return bound, CustomRows(
            np.ascontiguousarray(table.y), table.weight, base, raw, self.params, native.address, address_of(report)
        )


def array_at(address: int | None, size: int) -> np.ndarray:
    """The numbers at an address."""
    if not size or address is None:
        return np.zeros(0)
    return np.ctypeslib.as_array((ctypes.c_double * size).from_address(address))


def address_of(function: Any) -> int:
    """Address of a C function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _compiled(function: Callable[..., float]) -> tuple[Any, Any]:
    """The function compiled, and a C function that calls it; one sentence where Numba cannot."""
    name = getattr(function, "__name__", "") or type(function).__name__
    try:
        jitted: Any = function if is_jitted(function) else njit(nogil=True, error_model="numpy")(function)
        # One that was compiled for types of the user's choice takes no others; the call below finds what fits.
        with contextlib.suppress(RuntimeError):
            jitted.compile(_ARGUMENTS)
        if _ARGUMENTS in jitted.overloads:
            _check_value(name, jitted.overloads[_ARGUMENTS].signature.return_type)

        @cfunc(_NATIVE)
        def native(y, x, n, m, weights, params, size):
            try:
                value = jitted(carray(y, (n,)), farray(x, (n, m)), carray(weights, (n,)), carray(params, (size,)))
            except Exception:
                return np.inf
            return value if value < np.inf else -np.inf

        return jitted, native
    # A TypeError where the number of arguments is wrong, or what is given is callable but no function.
    except (NumbaError, UnsupportedBytecodeError, TypeError) as error:
        raise InputError(
            f"Numba cannot compile the likelihood {name!r} as a function of (y, X, weights, params) that returns a "
            f"float: {_reason(error)}; mend it, or score models from Python by a BatchLikelihood."
        ) from error


def _check_value(name: str, kind: Any) -> None:
    """Refuse a function whose value is not one real number."""
    if not isinstance(kind, types.Float | types.Integer | types.Boolean):
        raise InputError(
            f"the likelihood {name!r} returns a value of Numba's type {kind}, and a log marginal likelihood is one "
            "number; return a float."
        )


def _reason(error: Exception) -> str:
    """What Numba has to say, without where in its own works it came to say it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("Failed in nopython mode pipeline")] or lines
    end = next((i for i, line in enumerate(told) if i and line.startswith(("File", "There are", "During"))), len(told))
    return textwrap.shorten(" ".join(told[:end]), 240, placeholder=" ...").rstrip(".")


@intrinsic
def _call(typing_context: Any, address: Any, y: Any, x: Any, n: Any, m: Any, w: Any, params: Any, size: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ir = cgutils.ir
        kind = ir.FunctionType(ir.DoubleType(), [ir.IntType(64)] * 7)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return types.float64(*[types.int64] * 8), codegen


_call_address: Any = _call


@kernel
def _ask(rows, address, x, m):
    """Value of the C function at this address for the columns gathered."""
    y, w, params = rows.y, rows.weight, rows.params
    return _call_address(
        np.int64(address), np.int64(y.ctypes.data), np.int64(x.ctypes.data), np.int64(len(y)), np.int64(m),
        np.int64(w.ctypes.data), np.int64(params.ctypes.data), np.int64(len(params)),
    )  # fmt: skip


@implements(log_marginal_of_columns, CustomRows)
def _custom_marginal(rows, work, cols, k, prior, n):
    b, count = rows.base.shape[0], len(rows.y)
    x, base, candidates = work.own, rows.base, rows.x
    # The base too, each time: nothing keeps a user's function from writing into what it is given.
    for i in range(b):
        for r in range(count):
            x[i, r] = base[i, r]
    for i in range(k):
        c = cols[i]
        for r in range(count):
            x[b + i, r] = candidates[c, r]
    value = _ask(rows, rows.address, x, b + k)
    if value == np.inf and rows.report != rows.address:
        value = _ask(rows, rows.report, x, b + k)
    if value == np.inf:
        raise LikelihoodError
    return value - rows.null
