"""Monte Carlo error, effective sample size and R-hat of inclusion frequencies, from batch means alone.

A chain over models leaves, for each term, the share of every batch of steps during which the term was in. For
a 0/1 indicator that is enough: its variance within a stretch of mean m is m(1 - m), so nothing else of the
path is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Batches are merged in pairs while each chain keeps at least this many.
MIN_BATCHES = 20
# Above this R-hat the batches of one chain say nothing about the distance between chains.
APART = 1.05


class Diagnostics(NamedTuple):
    """Frequency of each term and how far it may be trusted; every array has shape (K,)."""

    frequency: np.ndarray
    mcse: np.ndarray
    ess: np.ndarray
    r_hat: np.ndarray


def diagnose(batch_means: np.ndarray, batch_length: int) -> Diagnostics:
    """All diagnostics of inclusion frequencies.

    Parameters
    ----------
    batch_means : ndarray of shape (chains, batches, K)
        Share of each batch of consecutive steps during which a term was in the model.
    batch_length : int
        Steps in one batch.

    Returns
    -------
    Diagnostics
        Where a term never changed (frequency 0 or 1) the error is 0 and there is nothing to judge it by:
        ``ess`` and ``r_hat`` are NaN.
    """
    frequency = batch_means.mean(axis=(0, 1))
    r_hat = split_r_hat(batch_means, batch_length)
    mcse = monte_carlo_error(batch_means, r_hat)
    steps = batch_means.shape[0] * batch_means.shape[1] * batch_length
    return Diagnostics(frequency, mcse, effective_size(frequency, mcse, steps), r_hat)


def monte_carlo_error(batch_means: np.ndarray, r_hat: np.ndarray | None = None) -> np.ndarray:
    """Monte Carlo standard error of each frequency, by batch means over all chains.

    With m_1, ..., m_B the means of the batches of all chains and m their mean, the squared error is
    ``sum (m_b - m)^2 / (B (B - 1))``. This is right when batches are long against the autocorrelation time,
    which nobody knows beforehand; so neighbouring batches are merged in pairs, again and again while at least
    20 remain in each chain, and the largest of these estimates is taken. It errs on the side of caution: a
    maximum of several estimates of one number is on average a little above it.

    Where ``r_hat`` is given and exceeds 1.05, the chains sit apart, batches of one chain are not independent
    at any length, and the chains' own means count as batches as well.
    """
    chains = batch_means.shape[0]
    level = batch_means
    largest = _error_of_batches(level)
    while level.shape[1] >= 2 * MIN_BATCHES:
        half = level.shape[1] // 2
        # An odd batch at the end is left out of the coarser levels; the finest level holds all.
        level = level[:, : 2 * half].reshape(chains, half, 2, -1).mean(axis=2)
        largest = np.maximum(largest, _error_of_batches(level))
    if r_hat is not None and chains > 1:
        between = _error_of_batches(batch_means.mean(axis=1, keepdims=True))
        # NaN compares false: a term that never changed keeps its error of zero.
        largest = np.where(r_hat > APART, np.maximum(largest, between), largest)
    return largest


def _error_of_batches(level: np.ndarray) -> np.ndarray:
    count = level.shape[0] * level.shape[1]
    if count < 2:
        return np.full(level.shape[2], np.nan)
    centred = level - level.mean(axis=(0, 1))
    return np.sqrt((centred**2).sum(axis=(0, 1)) / (count * (count - 1)))


def effective_size(frequency: np.ndarray, mcse: np.ndarray, steps: float) -> np.ndarray:
    """Number of independent draws with the same error: ``p (1 - p) / mcse^2``, at most the number of steps.

    NaN where the frequency is 0 or 1: an indicator that never changed does not tell how often it was free to.
    """
    variance = frequency * (1.0 - frequency)
    varied = (frequency > 0.0) & (frequency < 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.minimum(variance / mcse**2, steps)
    return np.where(varied, size, np.nan)


def split_r_hat(batch_means: np.ndarray, batch_length: int) -> np.ndarray:
    """Split R-hat of each indicator, from the means of half chains.

    With m_h the mean of half chain h of n steps, the variance within is
    ``W = mean_h m_h (1 - m_h) n / (n - 1)`` (exact for an indicator), the variance between is
    ``V = var_h(m_h)`` with divisor H - 1, and ``R-hat = sqrt(((n - 1)/n W + V) / W)``. It is NaN where
    the term is in, or out, at every step (W = V = 0), and infinite where chains never change but sit apart
    (W = 0, V > 0). With an odd number of batches the middle one is left out.
    """
    chains, batches, terms = batch_means.shape
    half = batches // 2
    if half == 0:
        return np.full(terms, np.nan)
    halves = np.concatenate([batch_means[:, :half].mean(axis=1), batch_means[:, batches - half :].mean(axis=1)])
    n = half * batch_length
    share = 1.0 if n < 2 else n / (n - 1)
    within = (halves * (1.0 - halves)).mean(axis=0) * share
    between = halves.var(axis=0, ddof=1)
    # Sums of rounded shares may leave 1e-17 where there is no variation.
    within = np.where(within < 1e-14, 0.0, within)
    between = np.where(between < 1e-28, 0.0, between)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((within / share + between) / within)
