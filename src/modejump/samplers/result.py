"""What every sampler returns: evaluated models, and the record of the chains where there are chains."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


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
        Rank in the order of first evaluation: the scout's models, then each chain's.
    """

    words: np.ndarray
    log_posterior: np.ndarray
    visits: np.ndarray
    first_seen: np.ndarray

    def __len__(self) -> int:
        return len(self.log_posterior)

    def members(self, row: int) -> list[int]:
        """Indices of the terms of one model."""
        return [64 * w + b for w, word in enumerate(self.words[row].tolist()) for b in range(64) if (word >> b) & 1]

    def membership(self, n_terms: int, rows: int | None = None) -> np.ndarray:
        """Boolean matrix of shape (rows, n_terms): which terms the leading models have."""
        words = self.words[:rows]
        bits = np.unpackbits(words.view(np.uint8).reshape(len(words), -1), axis=1, bitorder="little")
        return bits[:, :n_terms].astype(bool)


@dataclass(frozen=True, eq=False)
class SamplerResult:
    """Outcome of a sampler on one problem.

    Attributes
    ----------
    algorithm : str
        "enumerate", "mjmcmc" or "gmjmcmc".
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
    notes : tuple of str
        Sentences worth telling the user, e.g. a precision that was not reached within its cap.
    chain_best : ndarray of shape (chains,) or None
        After a search among features: the highest log posterior that each chain met.
    populations, restarts : int
        After a search among features: populations of all chains together, and how often a chain began anew.
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
    acceptance: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0
    warmup_seconds: float = 0.0
    finished: bool = True
    forgotten_visits: int = 0
    notes: tuple[str, ...] = ()
    chain_best: np.ndarray | None = None
    populations: int = 0
    restarts: int = 0

    @property
    def counted(self) -> bool:
        """Whether the share of steps spent in a model estimates its probability.

        It does in a chain over a fixed list of terms. A search changes the list as it goes, so its models are
        compared by their posterior, renormalised.
        """
        return self.algorithm == "mjmcmc" and self.steps > 0

    @property
    def steps_per_second(self) -> float:
        """Sampling steps of all chains per second of wall time; for enumeration, models per second."""
        count = self.n_models if self.exact else self.steps
        return count / self.seconds if self.seconds > 0 else float("nan")
