"""How long chains sample: by steps, by time, or to a wanted precision, in batches whose means are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from modejump.runtime.context import Context
from modejump.samplers.budget import Budget
from modejump.samplers.chains.mjmcmc_chain import MAX_BATCHES, Batched
from modejump.samplers.diagnostics import monte_carlo_error, split_r_hat

FIRST_BATCH = 500
FIRST_PIECE = 100
# A wanted precision is checked first after so many batches, then whenever their steps have doubled.
FIRST_CHECK = 64
# Steps of each chain before the first report; then as many as the pace allows.
PIECE_STEPS = 25_000
# Chains wait for the slowest of them after each piece, so pieces grow with the steps made, up to so many seconds.
PIECE_GROWTH = 16
GOOD_SECONDS = 1.0
# Longer models than this are cut in a line of progress.
WIDEST = 60
# Seconds between two looks at what takes time to say.
TELL_EVERY = 2.0


def timed_pieces(
    work: Callable[[int], Sequence[np.ndarray]], until: float, short: float
) -> tuple[list[np.ndarray], int]:
    """Steps until a moment, in growing pieces; their mean shares and their number.

    ``work`` makes every chain run so many steps and returns the terms' shares of them. Pieces of less than ``short``
    seconds are followed by longer ones.
    """
    total, steps, piece = np.zeros(()), 0, FIRST_PIECE
    while steps == 0 or time.perf_counter() < until:
        now = time.perf_counter()
        total = total + piece * np.array(work(piece))
        steps += piece
        spent, left = time.perf_counter() - now, until - time.perf_counter()
        piece = max(FIRST_PIECE, int(piece * min(2.0 if spent < short else 1.0, left / max(spent, 1e-9))))
    return list(total / steps), steps


def brief(text: str) -> str:
    """A model for a line of progress."""
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."


class Schedule:
    """Runs batches of all chains until a budget is spent.

    Parameters
    ----------
    chains : sequence
        The chains, at the same number of batches of the same length.
    run : callable
        Makes every chain run so many batches.
    context : Context
        Progress, executor and checkpoint.
    begun_share : float
        Share of the progress that was there before sampling.
    means : callable, optional
        Batch means of shape (chains, batches, terms) that a wanted precision is judged by; default those that the
        chains keep.
    keep : callable, optional
        Called after each piece of work, when all chains are between two batches, with the target.
    best : callable, optional
        The best model so far, in words.

    Attributes
    ----------
    target : int or None
        Steps at which a wanted precision is judged next; a checkpoint keeps it.
    """

    def __init__(
        self,
        chains: Sequence[Batched],
        run: Callable[[int], None],
        context: Context,
        begun_share: float,
        means: Callable[[], np.ndarray] | None = None,
        keep: Callable[[int | None], None] | None = None,
        best: Callable[[], str] | None = None,
    ) -> None:
        self.chains, self.run, self.progress, self.begun_share = chains, run, context.progress, begun_share
        self.means = means or (lambda: np.array([chain.means for chain in chains]))
        self.keep = keep or (lambda target: None)
        self.best = best or (lambda: "")
        self.target, self.pace = context.checkpoint.number_or_none("target"), context.executor.pace
        self.began = self._told = time.perf_counter()
        self._before = self.steps_done()
        self._words = ""

    def sample(self, budget: Budget, begun: float) -> list[str]:
        """Spend the budget, which began at a moment; returns what the user should know."""
        if budget.seconds is not None:
            self._sample_until(begun + budget.seconds)
        elif budget.mcse is not None:
            return self._sample_to_precision(budget.mcse, budget.sampling_steps())
        else:
            steps = budget.sampling_steps()
            if not self.chains[0].means:
                for chain in self.chains:
                    chain.batch = max(1, min(FIRST_BATCH, steps // 64))
            self.sample_steps(steps, steps)
        return []

    def steps_done(self) -> int:
        """Sampling steps of each chain so far."""
        return self.chains[0].batch * len(self.chains[0].means)

    def _report(self, done: float) -> None:
        """Progress of sampling: its rate so far, the largest R-hat, the best model."""
        if self.progress is None:
            return
        now = time.perf_counter()
        rate = (self.steps_done() - self._before) * len(self.chains) / max(now - self.began, 1e-9)
        if not self._words or now - self._told > TELL_EVERY:
            self._told, self._words = now, self._in_words()
        share = self.begun_share + (1 - self.begun_share) * done
        self.progress(share, 1.0, f"sampling, {rate / 1e6:.2f} million steps/s{self._words}")

    def _in_words(self) -> str:
        """Largest R-hat over what the chains count themselves, and the best model."""
        means = [chain.means for chain in self.chains]
        few = min(len(m) for m in means)
        r_hat = split_r_hat(np.array([m[:few] for m in means]), self.chains[0].batch) if few > 1 else np.zeros(0)
        r_hat = r_hat[~np.isnan(r_hat)]
        best = brief(self.best())
        return (f", R-hat {r_hat.max():.3f}" if len(r_hat) else "") + (f", best: {best}" if best else "")

    def sample_steps(self, target: int, total: int) -> None:
        """Batches until each chain has made the target's number of steps."""
        piece = PIECE_STEPS
        while self.steps_done() < target:
            batch = self.chains[0].batch
            left = -(-(target - self.steps_done()) // batch)
            # Batches double their length when there are too many: not in the middle, or the target is overshot.
            room = MAX_BATCHES - len(self.chains[0].means)
            count = max(1, min(left, room, piece // batch))
            now = time.perf_counter()
            self.run(count)
            # Where the pieces end changes nothing but how soon the world hears of them.
            rate = count * batch / max(time.perf_counter() - now, 1e-9)
            grown = min(self.steps_done() // PIECE_GROWTH, GOOD_SECONDS * rate)
            piece = int(max(min(self.pace.steps, self.pace.seconds * rate), grown))
            self._report(min(1.0, self.steps_done() / total))
            self.keep(self.target)

    def _sample_until(self, until: float) -> None:
        count = 1
        start = time.perf_counter()
        while not self.chains[0].means or time.perf_counter() < until:
            now, batch = time.perf_counter(), self.chains[0].batch
            count = min(count, MAX_BATCHES - len(self.chains[0].means))
            self.run(count)
            spent, left = time.perf_counter() - now, until - time.perf_counter()
            more = 2.0 if spent < self.pace.short else 0.5 if spent > self.pace.long else 1.0
            # Batches that have become longer are fewer.
            count = max(1, int(count * min(more, left / max(spent, 1e-9)) * batch / self.chains[0].batch))
            self._report(min(1.0, (time.perf_counter() - start) / max(until - start, 1e-9)))
            self.keep(self.target)

    def _sample_to_precision(self, wanted: float, cap: int) -> list[str]:
        self.target = self.target or FIRST_CHECK * FIRST_BATCH
        while True:
            self.target = min(self.target, cap)
            self.sample_steps(self.target, cap)
            means = self.means()
            reached = float(monte_carlo_error(means, split_r_hat(means, self.chains[0].batch)).max())
            if reached <= wanted:
                return []
            if self.target >= cap:
                return [
                    f"The wanted precision {wanted:g} was not reached within {cap} steps a chain "
                    f"(largest Monte Carlo standard error {reached:.2g}); raise the cap."
                ]
            self.target *= 2
