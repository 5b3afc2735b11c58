"""What features of all languages share: one object for each canonical form, in one order."""

from __future__ import annotations

import hashlib
import math
import threading
from functools import total_ordering
from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary

# The garbage collector may run while the lock is held and meet a finaliser that makes features: hence re-entrant.
_LOCK = threading.RLock()


@total_ordering
class Expression:
    """A canonical expression over covariates; equal ones are one and the same object.

    They are ordered by complexity, then text. A language makes them by :meth:`interned`.
    """

    __slots__ = ("__weakref__", "_hash", "complexity", "covariates", "depth", "spellings", "text", "width")

    text: str  # the expression, in the one form that stands for all its spellings
    covariates: frozenset[str]  # names of all covariates in it
    complexity: int  # this and the next two are measures as the language defines them
    depth: int
    width: int
    spellings: int  # number of expressions that this one stands for, as the language counts them
    _hash: int
    # Number of constants that are fitted to the data and counted by the prior; none unless the language says so.
    constants: int = 0

    _known: ClassVar[WeakValueDictionary[str, Any]]

    def __init_subclass__(cls) -> None:
        cls._known = WeakValueDictionary()

    @classmethod
    def known(cls, text: str) -> Self | None:
        """The expression with this canonical text, where there is one already."""
        with _LOCK:
            return cls._known.get(text)

    @classmethod
    def interned(cls, text: str, **values: Any) -> Self:
        """The expression with this canonical text, which is made of these values where it is new."""
        made = object.__new__(cls)
        # The same in every process, so that sets of features have one order.
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        values |= {"text": text, "_hash": hash(int.from_bytes(digest, "little"))}
        for name, value in values.items():
            object.__setattr__(made, name, value)
        # Another thread may have been faster; then its object is the expression.
        with _LOCK:
            return cls._known.setdefault(text, made)

    @property
    def log_spellings(self) -> float:
        """Natural logarithm of the number of spellings."""
        return math.log(self.spellings)

    def __hash__(self) -> int:
        return self._hash

    # Equality is identity, because equal expressions are one object.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return (self.complexity, self.text) < (other.complexity, other.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a feature cannot be changed, so {name!r} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a feature cannot be changed, so {name!r} cannot be deleted.")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
