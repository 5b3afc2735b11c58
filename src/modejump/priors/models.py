"""Priors over models, p(M), for models that are subsets of K given terms."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, logit

from modejump.core.errors import InputError
from modejump.core.numbers import real_number, whole_number
from modejump.core.registry import Registry, to_dict
from modejump.priors.compiled import ModelPriorArrays, weights_only
from modejump.priors.counting import log_normaliser
from modejump.priors.heredity import HEREDITY_CODES, compressed, effective_parents, parents_from_names

Array = NDArray[np.float64]


class ModelPrior:
    """Base of all model priors; each is a frozen record with these two limits among its parameters."""

    name: ClassVar[str]
    max_size: int | None  # largest number of terms in a model
    # {"strong", "weak"} or None: whether an interaction or a power needs all its parents in the model (strong) or at
    # least one (weak).
    heredity: str | None

    def __post_init__(self) -> None:
        if self.max_size is not None:
            size = whole_number(self.max_size, "max_size of the model prior")
            object.__setattr__(self, "max_size", size)
        if self.heredity not in tuple(HEREDITY_CODES):
            raise InputError(f"heredity must be 'strong', 'weak' or None, got {self.heredity!r}.")

    def _log_parts(self, n_terms: int, names: Sequence[str] | None) -> tuple[Array, Array]:
        """Log prior by size and by term, normalised over all 2^K models."""
        raise NotImplementedError

    def compile(
        self,
        K: int,
        names: Sequence[str] | None = None,
        parents: Sequence[Sequence[int]] | None = None,
        always_in: Collection[str] = (),
    ) -> ModelPriorArrays:
        """The prior for K terms, as compiled code reads it.

        It sums to one over the admissible models. With heredity the sum is out of reach when very many terms are
        parents of others, and then it is known up to a constant.

        Names are needed for prior probabilities given by name. The parents of each term are indices, -1 for one that
        is always in; by default `parents_from_names` deduces them.
        """
        log_size, log_weight = self._log_parts(K, names)
        heredity = HEREDITY_CODES[self.heredity]
        effective: list[tuple[int, ...]] = [()] * K
        if heredity:
            parents = parents_from_names(names or (), always_in) if parents is None else parents
            effective = effective_parents(parents, K, heredity)
        largest = K if self.max_size is None else min(self.max_size, K)
        log_size[largest + 1 :] = -np.inf
        constant: float | None = 0.0
        if largest < K or any(effective):
            constant = log_normaliser(log_size, log_weight, effective, heredity)
        if constant is not None:
            log_size -= constant
        return ModelPriorArrays(log_size, log_weight, heredity, *compressed(effective))

    def to_dict(self) -> dict[str, Any]:
        """Return name and parameters as plain values, see `model_prior_from_dict`."""
        return to_dict(self)


@dataclass(frozen=True)
class UniformPrior(ModelPrior):
    """The same prior probability for every admissible model.

    Parameters
    ----------
    max_size : int, optional
        Largest number of terms in a model.
    heredity : {"strong", "weak"}, optional
        Whether an interaction or a power needs all its parents in the model (strong) or at least one (weak).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, UniformPrior
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(model_prior=UniformPrior(max_size=4)).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.48
    """

    max_size: int | None = None
    heredity: str | None = None

    name: ClassVar[str] = "uniform"

    def _log_parts(self, n_terms: int, names: Sequence[str] | None) -> tuple[Array, Array]:
        return np.full(n_terms + 1, -n_terms * np.log(2.0)), np.zeros(n_terms)


@dataclass(frozen=True)
class BernoulliPrior(ModelPrior):
    """Terms are in independently, conditioned on the model being admissible.

    Parameters
    ----------
    q : float, sequence of float or mapping from term names to float
        Prior inclusion probability: of every term, by position, or by name.
    max_size : int, optional
        Largest number of terms in a model.
    heredity : {"strong", "weak"}, optional
        Whether an interaction or a power needs all its parents in the model (strong) or at least one (weak).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, BernoulliPrior
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(model_prior=BernoulliPrior(0.1)).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.21
    """

    q: float | tuple[float, ...] | dict[str, float] = 0.5
    max_size: int | None = None
    heredity: str | None = None

    name: ClassVar[str] = "bernoulli"

    def __post_init__(self) -> None:
        super().__post_init__()
        q: Any = self.q
        if isinstance(q, Mapping):
            q = {str(name): self._probability(value) for name, value in q.items()}
        elif isinstance(q, list | tuple) or np.ndim(q) == 1:
            q = tuple(self._probability(value) for value in q)
        else:
            q = self._probability(q)
        object.__setattr__(self, "q", q)

    @staticmethod
    def _probability(value: object) -> float:
        return real_number(value, "q of the bernoulli prior", above=0.0, below=1.0)

    def _by_term(self, n_terms: int, names: Sequence[str] | None) -> Array:
        if isinstance(self.q, tuple):
            if len(self.q) != n_terms:
                raise InputError(f"q of the bernoulli prior has {len(self.q)} entries for {n_terms} terms.")
            return np.array(self.q)
        assert isinstance(self.q, dict) and names is not None
        missing = [name for name in names if name not in self.q]
        if missing:
            raise InputError(f"q of the bernoulli prior lacks the term {missing[0]!r}: give every term a value.")
        unknown = [name for name in self.q if name not in set(names)]
        if unknown:
            raise InputError(f"q of the bernoulli prior names {unknown[0]!r}, which is no term: remove it.")
        return np.array([self.q[name] for name in names])

    def _log_parts(self, n_terms: int, names: Sequence[str] | None) -> tuple[Array, Array]:
        if isinstance(self.q, float):
            size = np.arange(n_terms + 1)
            return size * np.log(self.q) + (n_terms - size) * np.log1p(-self.q), np.zeros(n_terms)
        q = self._by_term(n_terms, names)
        return np.full(n_terms + 1, np.log1p(-q).sum()), logit(q)


@dataclass(frozen=True)
class BetaBinomialPrior(ModelPrior):
    """Terms are in independently with a common probability that has a Beta(a, b) distribution.

    p(M) = B(s + a, K - s + b) / B(a, b) for a model of s terms; a = b = 1 gives every size the same
    probability.

    Parameters
    ----------
    a, b : float
        Parameters of the beta distribution.
    max_size : int, optional
        Largest number of terms in a model.
    heredity : {"strong", "weak"}, optional
        Whether an interaction or a power needs all its parents in the model (strong) or at least one (weak).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from modejump import BGLMRegressor, BetaBinomialPrior
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BGLMRegressor(model_prior=BetaBinomialPrior(1, 4)).fit(X, y)
    >>> round(float(model.inclusion_.loc["s1", "probability"]), 2)
    0.52
    """

    a: float = 1.0
    b: float = 1.0
    max_size: int | None = None
    heredity: str | None = None

    name: ClassVar[str] = "beta-binomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("a", "b"):
            value = real_number(getattr(self, key), f"{key} of the beta-binomial prior", above=0.0)
            object.__setattr__(self, key, value)

    def _log_parts(self, n_terms: int, names: Sequence[str] | None) -> tuple[Array, Array]:
        size = np.arange(n_terms + 1)
        return betaln(size + self.a, n_terms - size + self.b) - betaln(self.a, self.b), np.zeros(n_terms)


@dataclass(frozen=True)
class WeightedPrior(ModelPrior):
    """Each term has its own log weight and models have a largest size; known up to a constant.

    Features found by a search have this prior among each other: the whole space they come from is out of reach.
    """

    log_weights: tuple[float, ...] = ()  # of each term
    max_size: int | None = None
    log_sizes: tuple[float, ...] = ()  # of a model by its number of terms, from 0 to the largest; all alike without

    name: ClassVar[str] = "weighted"
    heredity: ClassVar[str | None] = None  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "log_weights", tuple(float(w) for w in self.log_weights))
        object.__setattr__(self, "log_sizes", tuple(float(w) for w in self.log_sizes))

    def compile(
        self,
        K: int,
        names: Sequence[str] | None = None,
        parents: Sequence[Sequence[int]] | None = None,
        always_in: Collection[str] = (),
    ) -> ModelPriorArrays:
        """The prior for K terms, as compiled code reads it."""
        if len(self.log_weights) != K:
            raise InputError(
                f"the weighted prior has {len(self.log_weights)} weights for {K} terms; give one for each."
            )
        largest = K if self.max_size is None else min(self.max_size, K)
        if self.log_sizes and len(self.log_sizes) <= largest:
            raise InputError(
                f"the weighted prior has weights of sizes up to {len(self.log_sizes) - 1} for models of up to "
                f"{largest} terms; give one for each size."
            )
        return weights_only(np.array(self.log_weights), largest, self.log_sizes)


MODEL_PRIORS: Registry[type[ModelPrior]] = Registry(
    "model prior", (UniformPrior, BernoulliPrior, BetaBinomialPrior, WeightedPrior)
)


def resolve_model_prior(spec: str | ModelPrior) -> ModelPrior:
    """Return the model prior that a name or an object stands for."""
    return MODEL_PRIORS.resolve(spec, ModelPrior)


def model_prior_from_dict(stored: Mapping[str, Any]) -> ModelPrior:
    """Return the prior that `ModelPrior.to_dict` described."""
    return MODEL_PRIORS.from_dict(stored)
