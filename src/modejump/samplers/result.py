"""What every sampler returns: the models evaluated, and the record of the chains where there are chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from modejump.features.covariates.language import Covariates

if TYPE_CHECKING:
    from modejump.samplers.laws import Laws

# Samplers whose chains leave the posterior invariant, so that the share of steps in a model estimates its probability.
COUNTED = ("mjmcmc", "rgmjmcmc")
# Searches whose best models differ by less than this in log posterior have found the same, rounding apart.
SAME_BEST = 1e-3


class SearchCounts(NamedTuple):
    """How independent searches ended.

    Attributes
    ----------
    searches : int
        Searches that shared nothing but the data.
    reached : int
        Those that met the best model of the run.
    alone : int
        Those whose best model no other search met: their share estimates the chance that one more search would end
        somewhere new (Good and Turing).
    """

    searches: int
    reached: int
    alone: int

    @classmethod
    def of(cls, bests: np.ndarray, top: float) -> SearchCounts:
        """Counts from the best log posterior of each search, and that of the run.

        Models are told apart by their log posterior: two of exactly the same value are two spellings of one law, or
        equally good.
        """
        ordered = np.sort(bests)
        # Two searches that met nothing are both at minus infinity.
        near = (ordered[1:] == ordered[:-1]) | (ordered[1:] < ordered[:-1] + SAME_BEST)
        # A search is alone where neither of its neighbours is near.
        alone = ~(np.append(near, False) | np.append(False, near))
        return cls(len(bests), int((bests >= top - SAME_BEST).sum()), int(alone.sum()))


def members_of(words: np.ndarray) -> list[int]:
    """Indices of the terms of a model given as a bit set."""
    members = []
    for w, word in enumerate(words.tolist()):
        while word:
            rest = word & (word - 1)
            members.append(64 * w + (word ^ rest).bit_length() - 1)
            word = rest
    return members


def acceptance_of(names: Sequence[str], tried: Sequence[np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Counts of each kernel that was tried, by its name, over all chains."""
    total = np.sum(tried, axis=0)
    return {name: tuple(total[i].tolist()) for i, name in enumerate(names) if total[i, 0]}


@dataclass(frozen=True, eq=False)
class ModelTable:
    """Distinct models, best first.

    Attributes
    ----------
    words : ndarray of uint64, shape (m, W)
        The models as bit sets: term j is bit ``j % 64`` of word ``j // 64``.
    log_posterior : ndarray of shape (m,)
        ``log p(M) + log p(y|M) - log p(y|base)``.
    visits : ndarray of int64, shape (m,)
        How many sampling steps of all chains ended in the model (0 where it was only evaluated).
    first_seen : ndarray of int64, shape (m,)
        Rank in the order of first evaluation: the models of the best-first search, then each chain's.
    chains : ndarray of int64, shape (m,)
        How many chains visited the model while sampling; zeros where nobody counted, as after enumeration.
    draws : ndarray of int64, shape (m,)
        How often the model is among evenly spaced draws from the chains, where the posterior is spread over more models
        than the table holds; zeros elsewhere.
    """

    words: np.ndarray
    log_posterior: np.ndarray
    visits: np.ndarray
    first_seen: np.ndarray
    chains: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    draws: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        for name in ("chains", "draws"):
            if len(getattr(self, name)) == 0:
                object.__setattr__(self, name, np.zeros(len(self), np.int64))

    def __len__(self) -> int:
        return len(self.log_posterior)

    def members(self, row: int) -> list[int]:
        """Indices of the terms of one model."""
        return members_of(self.words[row])

    def membership(self, n_terms: int, rows: int | None = None) -> np.ndarray:
        """Boolean matrix of shape (rows, n_terms): which terms the leading models have."""
        words = self.words[:rows]
        bits = np.unpackbits(words.view(np.uint8).reshape(len(words), -1), axis=1, bitorder="little")
        return bits[:, :n_terms].astype(bool)


@dataclass(frozen=True, eq=False)
class Result:
    """Outcome of a sampler on one problem; after a search among features, over the laws found.

    Attributes
    ----------
    algorithm : str
        "enumerate", "mjmcmc", "gmjmcmc" or "rgmjmcmc".
    exact : bool
        Whether all models were enumerated, so that every probability is exact.
    models : ModelTable
        Models kept, best first: the leading ones after enumeration, the evaluated ones after sampling.
    n_models : int
        How many distinct models were evaluated.
    log_evidence : float
        Log of the sum of exp(log_posterior) over the distinct models evaluated.
    renormalised : ndarray of shape (K,)
        Inclusion probabilities renormalised over the distinct models evaluated; exact after enumeration.
    size_distribution : ndarray of shape (K + 1,)
        Posterior of the number of terms: exact after enumeration, otherwise by frequency.
    batch_means : ndarray of shape (chains, batches, K) or None
        Share of each batch of consecutive sampling steps during which a term was in the model.
    batch_length : int
        Steps in one batch.
    steps, warmup_steps : int
        Sampling and warm-up steps of all chains together.
    acceptance : dict
        For each kernel: (proposed, accepted) over all chains, sampling phase.
    seconds : float
        Wall time of sampling (or of the traversal), compilation apart.
    warmup_seconds : float
        Wall time of warm-up.
    finished : bool
        False where the run was interrupted; what is here is valid all the same.
    forgotten_visits : int
        Sampling visits to models that the memory bound dropped from ``models``.
    forgotten_shared : int
        How many of them are known to be visits to models that two chains or more visited: those of a table that
        was cut after the chains had been put together. At the memory bound of a single chain nobody knows.
    notes : tuple of str
        Sentences worth telling the user, e.g. a precision that was not reached within its cap.
    chain_best : ndarray of shape (chains,) or None
        After a search among features: the highest log posterior that each chain met.
    populations, restarts : int
        After a search among features: populations of all chains together, and how often a chain began anew.
    library : int
        After reversible sampling of features: how many features the library holds, which warm-up froze.
    population_moves : dict
        After reversible sampling of features, for each kernel that proposes populations: how many moves were
        proposed, how many changed the model, and how many backward searches met a population without the model,
        so that the move had no way back.
    library_share : float
        Share of the sampling steps whose model lies wholly inside the library; NaN without a library.
    laws : Laws, optional
        After a search among features: the laws that stand for the terms.
    search_best : ndarray of shape (searches,) or None
        After independent searches among features: the highest log posterior, given all rows, that each of them met.
    rao_blackwell : ndarray of shape (columns,) or None
        After selection among very many columns: the inclusion probability of every one of them, as the mean of its
        conditional probabilities given the rest of models drawn from the chains.
    noise_weight : ndarray of shape (rows,) or None
        Student-t errors: the weights of the distinct rows, frozen before sampling, of which 1 is the mean.
    """

    algorithm: str
    exact: bool
    models: ModelTable
    n_models: int
    log_evidence: float
    renormalised: np.ndarray
    size_distribution: np.ndarray
    batch_means: np.ndarray | None = None
    batch_length: int = 0
    steps: int = 0
    warmup_steps: int = 0
    acceptance: dict[str, tuple[int, ...]] = field(default_factory=dict)
    seconds: float = 0.0
    warmup_seconds: float = 0.0
    finished: bool = True
    forgotten_visits: int = 0
    notes: tuple[str, ...] = ()
    chain_best: np.ndarray | None = None
    populations: int = 0
    restarts: int = 0
    forgotten_shared: int = 0
    library: int = 0
    population_moves: dict[str, tuple[int, ...]] = field(default_factory=dict)
    library_share: float = float("nan")
    laws: Laws | None = None
    rao_blackwell: np.ndarray | None = None
    search_best: np.ndarray | None = None
    noise_weight: np.ndarray | None = None

    @property
    def counted(self) -> bool:
        """Whether the share of steps spent in a model estimates its probability.

        It does in a chain over a fixed list of terms, and in a reversible chain over features. A search changes
        the list as it goes, so its models are compared by their posterior, renormalised.
        """
        return self.algorithm in COUNTED and self.steps > 0

    @property
    def unvisited(self) -> float:
        """Estimate, on the cautious side, of the posterior mass of the models that no chain visited.

        It is the share of all sampling steps spent in models that exactly one chain visited: Good and Turing's
        estimate of the unseen, with whole chains as the samples. Leave chain c out. A step of chain c, in
        equilibrium, falls into a model that the other C - 1 chains did not visit with probability equal to the
        posterior mass of those models, because the chains are independent. So the expected share of chain c's
        steps in models that only it visited is the expected mass that C - 1 chains leave unvisited, and so is
        the average over c. C chains leave at most as much as C - 1 of them. Steps of one chain are dependent:
        that adds noise to the estimate, and no bias. Chains that sit apart are not in equilibrium; what each of
        them has for itself counts as unvisited.

        Steps in models that ``models`` lost at the memory bound count as unvisited unless they are known to be
        shared. NaN with one chain, without frequencies, and where nobody counted the chains of each model.
        """
        independent = 0 if self.batch_means is None else len(self.batch_means)
        told = self.models.chains.any() or self.forgotten_visits >= self.steps
        if not self.counted or independent < 2 or not told:
            return float("nan")
        shared = self.models.visits[self.models.chains >= 2].sum() + self.forgotten_shared
        return float((self.steps - shared) / self.steps)

    @property
    def search(self) -> SearchCounts | None:
        """How independent searches ended; None where there was nothing to search, or nobody counted.

        Where all terms are known beforehand, each chain is a search for the best model: it reached it where it visited
        it while sampling.
        """
        if self.search_best is not None and len(self.search_best):
            return SearchCounts.of(self.search_best, self.highest)
        known = self.laws is None or isinstance(self.laws.language, Covariates)
        if self.counted and known and self.batch_means is not None and self.models.chains.any():
            return SearchCounts(len(self.batch_means), int(self.models.chains[0]), 0)
        return None

    @property
    def highest(self) -> float:
        """The highest log posterior of any model, its spellings apart."""
        if self.laws is None or not self.laws.spelled:
            return float(self.models.log_posterior[0])
        several = [bool(self.laws.aliases.get(law)) for law in self.laws.features]
        plain = (
            float(value)
            for row, value in enumerate(self.models.log_posterior)
            if not any(several[j] for j in self.models.members(row))
        )
        return max(max(self.laws.spelled.values()), next(plain, -np.inf))

    @property
    def steps_per_second(self) -> float:
        """Sampling steps of all chains per second of wall time; for enumeration, models per second."""
        count = self.n_models if self.exact else self.steps
        return count / self.seconds if self.seconds > 0 else float("nan")
