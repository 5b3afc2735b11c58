"""The registry of G: functions of one column, built in or added by the user, under names that features use."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numba import cloudpickle
from numpy.typing import ArrayLike, NDArray

from modejump.core.errors import InputError
from modejump.features.nonlinear.builtin import DOMAINS, REAL, Array, Builder, Function, builtins

ARGUMENT = "#1"  # where a LaTeX template takes its argument, as in TeX's own macros


@dataclass(frozen=True)
class Domain:
    """Where a transform is defined.

    Parameters
    ----------
    text : str
        The condition, for a reader.
    contains : callable
        The condition as a function from an array to an array of booleans.
    """

    text: str
    contains: Callable[[Array], NDArray[np.bool_]] = field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # The built-in ones by their text: pickles know functions by name.
        if DOMAINS.get(self.text) is self.contains:
            return _builtin_domain, (self.text,)
        return Domain, (self.text, self.contains)


@dataclass(frozen=True)
class Transform:
    """One function of G; calling it gives its value, NaN outside its domain, without warnings.

    Parameters
    ----------
    name : str
        How features refer to it.
    formula : str
        Its definition, for a reader.
    function : callable
        From an array of floats to an array of floats of that shape, row by row; not asked outside the domain.
    scalar : callable or None
        From one number to one number, for Numba to compile; None for one that a user added.
    sympy : callable or None
        From a SymPy expression to a SymPy expression.
    latex : str
        LaTeX of its value, with ``#1`` where the argument goes.
    domain : Domain
        Where it is defined.
    parity : {-1, 0, 1}
        -1 where g(-x) = -g(x), 1 where g(-x) = g(x), 0 where neither holds.

    Examples
    --------
    >>> transforms["p0"]([1.0, 0.0, -1.0])
    array([ 0., nan, nan])
    """

    name: str
    formula: str
    function: Function = field(repr=False)
    scalar: Callable[[float], float] | None = field(repr=False)
    sympy: Builder | None = field(repr=False)
    latex: str = field(repr=False)
    domain: Domain
    parity: int = field(default=0, repr=False)

    def __call__(self, x: ArrayLike) -> Array:
        """Return the value at x."""
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(all="ignore"):
            inside = self.domain.contains(x)
            return np.where(inside, self.function(np.where(inside, x, np.nan)), np.nan)

    def __reduce__(self) -> tuple[Any, ...]:
        # The functions of the built-in ones are closures, which cannot be pickled; their names can.
        if self.scalar is not None:
            return _registered, (self.name,)
        # A function that a user wrote in place has no name to be found by.
        return _rebuilt, (cloudpickle.dumps([getattr(self, item.name) for item in fields(self)]),)


class Transforms(Mapping[str, Transform]):
    """The registry of G, a mapping from names to transforms.

    Built in are ``exp``, ``log``, ``sqrt``, ``cbrt``, ``inv``, ``square``, ``cube``; the bounded ``sigmoid``, ``sin``,
    ``cos``, ``sin_deg``, ``cos_deg`` (of degrees), ``tanh``, ``atan``, ``erf``, ``gauss``, ``exp_abs``; the slow
    ``log1p_abs``, ``arcsinh``, ``troot``, ``sroot``; the powers ``to23``, ``to25``, ``to3``, ``to35``; the rectifiers
    ``relu``, ``nrelu``, ``gelu``, ``ngelu`` and the steps ``hs``, ``nhs``; and the fractional polynomials ``p0``,
    ``p2``, ``p3``, ``p05``, ``pm05``, ``pm1``, ``pm2`` with their products with the logarithm ``p0p0``, ``p0p05``,
    ``p0p1``, ``p0p2``, ``p0p3``, ``p0pm05``, ``p0pm1``, ``p0pm2``. The ``formula`` of each says what it is. Roots are
    of absolute values, but for the fractional polynomials.

    Examples
    --------
    >>> transforms["to35"]
    Transform(name='to35', formula='|x|^3.5', domain=Domain(text='all real x'))
    >>> transforms.set("G1")
    ('sigmoid', 'sin', 'tanh', 'atan', 'troot')
    >>> softplus = transforms.add("softplus", lambda x: np.logaddexp(0.0, x))
    >>> softplus([0.0])
    array([0.69314718])
    >>> transforms.remove("softplus")
    """

    # The sets of functions of the published experiments.
    SETS: ClassVar[dict[str, tuple[str, ...]]] = {
        "G1": ("sigmoid", "sin", "tanh", "atan", "troot"),
        "G2": ("sigmoid", "sin_deg", "exp_abs", "log1p_abs", "troot", "to23", "to35"),
    }

    def __init__(self) -> None:
        self._by_name = {
            row.name: Transform(*row[:-2], Domain(row.domain, DOMAINS[row.domain]), row.parity) for row in builtins()
        }
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Transform:
        if name not in self:
            raise InputError(f"{name!r} is no transform: {self.advice(name)}.")
        return self._by_name[name]

    # Mapping's own `in` and `get` would wait for a KeyError.
    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._by_name

    def get(self, name: str, default: Any = None) -> Any:
        """Return the transform of this name, or the default."""
        return self._by_name.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._by_name))

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"<{len(self)} transforms: {', '.join(self)}>"

    def set(self, name: str) -> tuple[str, ...]:
        """Return the names of the transforms of a published set, "G1" or "G2"."""
        if name not in tuple(self.SETS):
            raise InputError(f"{name!r} is no set of transforms: choose one of {', '.join(self.SETS)}.")
        return self.SETS[name]

    def advice(self, name: object) -> str:
        """What to write instead of a name that is not known."""
        close = difflib.get_close_matches(str(name), self, n=1)
        return f"perhaps you mean {close[0]!r}" if close else "list(modejump.transforms) shows those there are"

    def add(
        self,
        name: str,
        function: Function,
        sympy: Builder | None = None,
        latex: str | None = None,
        domain: str | Domain | None = None,
    ) -> Transform:
        """Add a transform.

        Parameters
        ----------
        name : str
            An identifier that no transform has yet.
        function : callable
            From an array of floats to an array of floats of that shape. The value in a row must depend on that
            row only.
        sympy : callable, optional
            From a SymPy expression to a SymPy expression; without it the transform stays an undefined function.
        latex : str, optional
            LaTeX of the value, with ``#1`` where the argument goes; by default the name with the argument in
            parentheses.
        domain : str or Domain, optional
            Where the function is defined: "all real x" (default), "x > 0", "x >= 0", "x != 0", or a condition
            of your own. Outside, the value is NaN.

        Returns
        -------
        Transform
        """
        if not (isinstance(name, str) and name.isascii() and name.isidentifier()):
            raise InputError(f"The name of a transform must be of letters, digits and '_', got {name!r}.")
        if latex is None:
            latex = default_latex(name)
        if not (isinstance(latex, str) and ARGUMENT in latex):
            raise InputError(f"latex of the transform {name!r} must be text with {ARGUMENT} for the argument.")
        if sympy is not None and not callable(sympy):
            raise InputError(f"sympy of the transform {name!r} must be a function, got {sympy!r}.")
        where = _resolve_domain(name, domain)
        _check_function(name, function, where)
        with self._lock:
            if name in self:
                advice = "choose another name"
                if self[name].scalar is None:
                    advice += f", or call transforms.remove({name!r}) first"
                raise InputError(f"The name {name!r} is taken by another transform: {advice}.")
            transform = Transform(name, f"{name}(x)", function, None, sympy, latex, where)
            self._by_name[name] = transform
        return transform

    def adopt(self, transform: Transform) -> None:
        """Enter a transform that another process has added."""
        with self._lock:
            self._by_name[transform.name] = transform

    def remove(self, name: str) -> None:
        """Remove a transform that a user added; features with it can be printed afterwards, but not evaluated."""
        with self._lock:
            transform = self[name]
            if transform.scalar is not None:
                raise InputError(f"the transform {name!r} is built in and stays; only added ones can be removed.")
            del self._by_name[name]


def default_latex(name: str) -> str:
    """Return the LaTeX template of a transform that has none of its own."""
    escaped = name.replace("_", r"\_")
    return rf"\operatorname{{{escaped}}}\left({ARGUMENT}\right)"


def _resolve_domain(name: str, domain: str | Domain | None) -> Domain:
    if isinstance(domain, Domain):
        return domain
    text = REAL if domain is None else domain
    if text not in tuple(DOMAINS):
        choices = ", ".join(map(repr, DOMAINS))
        raise InputError(f"domain of the transform {name!r} must be a Domain or one of {choices}, got {domain!r}.")
    return Domain(text, DOMAINS[text])


def _check_function(name: str, function: Function, domain: Domain) -> None:
    """Refuse a function that does not map a column of floats to a column of floats, row by row."""
    x = np.array([-1e4, -30.0, -2.5, -1.0, -0.3, 0.0, 0.4, 1.0, 1.7, 30.0, 1e4])
    inside = _asked(f"domain of the transform {name!r}", domain.contains, x)
    if not (isinstance(inside, np.ndarray) and inside.shape == x.shape and inside.dtype == np.bool_):
        raise InputError(f"domain of the transform {name!r} must map an array to booleans of the same shape.")
    x = x[inside]
    subject = f"function of the transform {name!r}"
    whole = _asked(subject, function, x)
    if not (isinstance(whole, np.ndarray) and whole.shape == x.shape and np.issubdtype(whole.dtype, np.floating)):
        raise InputError(f"{subject} must return an array of floats of the shape that it is given.")
    pieces = [np.ravel(_asked(subject, function, piece)) for piece in (x[:4], x[4:])]
    together = np.concatenate(pieces)
    if together.shape != x.shape or not np.allclose(whole, together, equal_nan=True):
        raise InputError(f"{subject} must work row by row, but its value in one row depends on the other rows.")


def _asked(subject: str, function: Callable[[Array], Any], x: Array) -> Any:
    """What a function of the user returns for x; whatever it raises becomes one sentence."""
    if not callable(function):
        raise InputError(f"{subject} must be a function, got {function!r}.")
    try:
        with np.errstate(all="ignore"):
            return function(x.copy())
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{subject} must accept an array of floats, but failed on one ({reason}).") from error


transforms = Transforms()


def _builtin_domain(text: str) -> Domain:
    return Domain(text, DOMAINS[text])


def _registered(name: str) -> Transform:
    return transforms[name]


def _rebuilt(pickled: bytes) -> Transform:
    return Transform(*cloudpickle.loads(pickled))
