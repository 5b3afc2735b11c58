"""The models of many chains put together, and estimates renormalised over them."""

from __future__ import annotations

import numpy as np

from modejump.jit import entry
from modejump.kernels.store import COUNT, ModelStore, merge_into, new_store


def merged_stores(stores: list[ModelStore]) -> tuple[ModelStore, np.ndarray]:
    """One store with the models of all chains, and for each of its entries how many chains visited the model."""
    if len(stores) == 1:
        return stores[0], (stores[0].visits > 0).astype(np.int64)
    total = max(1, sum(int(s.num[COUNT]) for s in stores))
    merged = new_store(total, stores[0].words.shape[1])
    chains = np.zeros(total, np.int64)
    for s in stores:
        went = merge_into(merged, s)
        # The entries of one store are distinct models, so none is counted twice here.
        chains[went[s.visits[: len(went)] > 0]] += 1
    return merged, chains


def renormalised_inclusion(store: ModelStore, n_terms: int) -> np.ndarray:
    """Inclusion probabilities renormalised over the stored models."""
    value = store.log_posterior[: int(store.num[COUNT])]
    weight = np.exp(value - value.max())
    return weighted_inclusion(store.words[: len(value)], weight / weight.sum(), n_terms)


@entry
def weighted_inclusion(words, weight, n_terms):
    """Sum of the weights of the models that have each term."""
    out = np.zeros(n_terms)
    for m in range(words.shape[0]):
        for w in range(words.shape[1]):
            word = words[m, w]
            t = 64 * w
            while word != 0:
                if word & np.uint64(1):
                    out[t] += weight[m]
                word >>= np.uint64(1)
                t += 1
    return out
