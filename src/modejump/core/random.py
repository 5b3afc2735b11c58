"""xoshiro256++ on a state of four words that the caller owns.

A NumPy ``Generator`` cannot be copied from compiled code; a chain must be able to take a step back (when its
workspace has to grow) and a checkpoint must hold the stream, so the state is a plain array. Streams are seeded from
``numpy.random.SeedSequence`` and never shared.
"""

from __future__ import annotations

import numpy as np

from modejump.core.compilation import kernel


def fresh_sequence(seed: int | np.random.SeedSequence) -> np.random.SeedSequence:
    """A sequence that spawns the same streams at every call: spawning from one changes it."""
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)
    return np.random.SeedSequence(seed)


def new_stream(seed: np.random.SeedSequence) -> np.ndarray:
    """State of an independent stream."""
    return seed.generate_state(4, np.uint64)


@kernel
def _rotl(x, k):
    return (x << np.uint64(k)) | (x >> np.uint64(64 - k))


@kernel
def next_word(s):
    """The next 64 random bits."""
    result = _rotl(s[0] + s[3], 23) + s[0]
    t = s[1] << np.uint64(17)
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= t
    s[3] = _rotl(s[3], 45)
    return result


@kernel
def uniform(s):
    """A uniform number in [0, 1), a multiple of 2^-53."""
    return np.float64(next_word(s) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def below(s, m):
    """A uniform integer in [0, m); the bias of m / 2^53 is far below any Monte Carlo error."""
    return np.int64(uniform(s) * m)


@kernel
def draw_cumulative(s, cumulative):
    """An index by cumulative weights, of which there are few."""
    u = uniform(s)
    at = np.int64(0)
    while at < len(cumulative) - 1 and u >= cumulative[at]:
        at += 1
    return at


@kernel
def draw_alias(s, threshold, alias):
    """An index from the distribution behind an alias table (see ``alias_table``)."""
    u = uniform(s) * len(threshold)
    j = np.int64(u)
    return j if u - j < threshold[j] else alias[j]


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's alias table of a discrete distribution: draws in constant time."""
    k = len(weights)
    scaled = np.asarray(weights, dtype=np.float64) * (k / np.sum(weights))
    threshold = np.ones(k)
    alias = np.arange(k, dtype=np.int64)
    small = [j for j in range(k) if scaled[j] < 1.0]
    large = [j for j in range(k) if scaled[j] >= 1.0]
    while small and large:
        j, i = small.pop(), large[-1]
        threshold[j], alias[j] = scaled[j], i
        scaled[i] -= 1.0 - scaled[j]
        if scaled[i] < 1.0:
            small.append(large.pop())
    return threshold, alias
