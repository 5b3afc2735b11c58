"""A verdict on convergence in plain sentences, for people who do not read diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from modejump.samplers.diagnostics import APART, Diagnostics

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior

# Levels from best to worst.
LEVELS = ("exact", "good", "doubtful", "bad")
# R-hat above this (an effective sample of about fifty in a half chain) leaves doubt.
UNSURE = 1.01
# Among thousands of terms some rare one always looks unmixed. Its R-hat counts only where the frequency is in
# play: between these bounds, or with a Monte Carlo error that touches the second decimal.
_RARE = 0.01
_SETTLED = 0.002
# Monte Carlo errors above this leave the second decimal in doubt.
COARSE = 0.01
# Frequency and renormalised estimates further apart than this, and than four Monte Carlo errors, disagree.
DISAGREE = 0.05
_ERRORS = 4.0
# Posterior mass outside of the visited models above this is worth a warning.
UNVISITED = 0.05
# Chains whose best models differ by less than this in log posterior have found the same, rounding apart.
SAME_BEST = 1e-3


class Verdict(str):
    """A verdict: text of one to five sentences, with ``level`` "exact", "good", "doubtful" or "bad"."""

    level: str

    def __new__(cls, text: str, level: str) -> Verdict:
        """A text with its level."""
        self = super().__new__(cls, text)
        self.level = level
        return self

    def __reduce__(self) -> tuple[type[Verdict], tuple[str, str]]:
        """What a copy is made from; without it neither copy nor pickle knows the level."""
        return Verdict, (str(self), self.level)


def verdict(posterior: Posterior) -> Verdict:
    """Say how far the probabilities of this posterior may be trusted.

    Returns
    -------
    Verdict
        A string with the attribute ``level``: "exact" after enumeration; "good" where chains agree with each
        other and with the renormalised estimate; "doubtful" where R-hat exceeds 1.01, a Monte Carlo error
        exceeds 0.01, the two estimates differ by more than 0.05 and four Monte Carlo errors, or the run was
        interrupted; "bad" where chains sit apart (R-hat above 1.05) or nothing was sampled. Terms that are
        rarely in (or out) with a Monte Carlo error below 0.002 are not judged by their R-hat. Reversible chains
        over features are judged in the same way, and are "doubtful" as well where models that no chain visited
        may hold more than 0.05 of the posterior. A search among features that does not sample is "good" where
        two chains or more reached the best model, and "doubtful" otherwise.
    """
    result = posterior.result
    if result.exact:
        all_models = f"All {_count(result.n_models)} models were"
        start = "The only possible model was" if result.n_models == 1 else all_models
        lost = _lost_digits(result.models.log_posterior)
        if lost:
            return Verdict(f"{start} evaluated. {lost}", "doubtful")
        return Verdict(f"{start} evaluated{_exactly(posterior)}", "exact")
    if result.algorithm == "gmjmcmc" and result.chain_best is not None:
        return _search(result.chain_best, result.n_models, result.finished)
    d = posterior.diagnostics
    if d is None:
        text = (
            f"No sampling step was recorded, so the probabilities are renormalised over the "
            f"{_count(result.n_models)} models evaluated in warm-up and carry no error estimate; run longer."
        )
        return Verdict(text, "bad")
    names = posterior.problem.names
    parts = [
        _agreement(posterior, d),
        _chains(d, names),
        _constant(d, names),
        # Where every column has an estimate, unvisited models hide none.
        _outside(result.unvisited, "mjmcmc" if result.rao_blackwell is not None else result.algorithm),
        _library(result.library, result.algorithm),
        _unfinished(result.finished),
    ]
    level = max((level for _, level in parts), key=LEVELS.index)
    return Verdict(" ".join(text for text, _ in parts if text), level)


def _exactly(posterior: Posterior) -> str:
    """What remains approximate where all models were evaluated."""
    family = posterior.problem.family
    if family.conjugate or family.custom:
        return ": the probabilities are exact."
    return ", each by Laplace's approximation to its marginal likelihood."


def _lost_digits(log_posterior: np.ndarray) -> str:
    """A sentence where log posteriors are so large that their differences are rounded off."""
    largest = float(np.abs(log_posterior[np.isfinite(log_posterior)]).max(initial=0.0))
    lost = np.spacing(largest)
    if lost < 1e-3:
        return ""
    return (
        f"Log posteriors are as large as {largest:.0e}, so that differences between models below {4 * lost:.1g} are "
        "lost to rounding; give smaller weights."
    )


def _reached_best(chain_best: np.ndarray) -> int:
    """How many chains of a search found the best model of all."""
    return int((chain_best >= chain_best.max() - SAME_BEST).sum())


def _search(chain_best: np.ndarray, models: int, finished: bool) -> Verdict:
    """A search has no Monte Carlo error; that its chains meet in one best model is what speaks for it."""
    chains, reached = len(chain_best), _reached_best(chain_best)
    start = f"Renormalised over {_count(models)} model{'s' if models > 1 else ''} found by"
    if chains == 1:
        text = f"{start} one chain, so nothing tells whether it found the best model; run more chains."
    elif reached == 1:
        text = (
            f"{start} {_count(chains)} chains; only one of them reached the best model, so better ones may be "
            "left to find; run longer."
        )
    else:
        text = f"{start} {_count(chains)} chains; {_count(reached)} of them reached the best model."
    stopped, level = _unfinished(finished)
    return Verdict(f"{text} {stopped}".rstrip(), "doubtful" if reached == 1 else level)


def _agreement(posterior: Posterior, d: Diagnostics) -> tuple[str, str]:
    """Frequencies against renormalised estimates."""
    result = posterior.result
    assert result.batch_means is not None
    chains = result.batch_means.shape[0]
    start = f"Over {_count(result.steps)} steps of {chains} chain{'s' if chains > 1 else ''}, frequencies"
    if len(d.frequency) == 0:
        return f"{start} have nothing to count: no term can enter or leave.", "good"
    other, what = posterior.renormalised, f"estimates renormalised over {_count(result.n_models)} models"
    if result.rao_blackwell is not None and result.laws is not None:
        language: Any = result.laws.language
        other = result.rao_blackwell[[language.place(f) for f in result.laws.features]]
        what = f"conditional probabilities of all {_count(len(result.rao_blackwell))} columns given models drawn"
    gap = np.abs(d.frequency - other)
    at = int(np.argmax(gap))
    outside = (gap > DISAGREE) & (gap > _ERRORS * np.nan_to_num(d.mcse))
    if outside.any():
        at = int(np.argmax(np.where(outside, gap, -1.0)))
    word = "disagree" if outside.any() else "agree"
    errors = _in_errors(gap[at], d.mcse[at])
    text = (
        f"{start} {word} with {what}: the largest difference is {gap[at]:.2g} ({posterior.problem.names[at]}{errors})."
    )
    if outside.any():
        text = text[:-1] + ", so the chains may have missed part of the posterior."
    return text, "doubtful" if outside.any() else "good"


def _in_errors(gap: float, mcse: float) -> str:
    if gap == 0.0:
        return ""
    return f", {gap / mcse:.1f} Monte Carlo errors" if mcse > 0.0 else ", whose frequency has no variation"


def _chains(d: Diagnostics, names: Sequence[str]) -> tuple[str, str]:
    """R-hat, effective sample size and Monte Carlo error; silent on terms that never changed."""
    varied = (d.frequency > 0.0) & (d.frequency < 1.0)
    rare = np.minimum(d.frequency, 1.0 - d.frequency) < _RARE
    in_play = varied & ~(rare & (d.mcse <= _SETTLED))
    apart = np.flatnonzero(in_play & (d.r_hat > APART))
    if len(apart):
        apart = apart[np.argsort(-d.r_hat[apart], kind="stable")]
        worst = d.r_hat[apart[0]]
        how = "chains that never left where they were" if np.isinf(worst) else f"R-hat up to {worst:.2f}"
        text = f"The chains sit apart on {_list(names, apart)} ({how}): do not trust these frequencies; run longer."
        return text, "bad"
    if not varied.any():
        return "", "good"
    if not in_play.any():
        return (
            f"The Monte Carlo error is at most {d.mcse.max():.2g} ({names[int(np.argmax(d.mcse))]}).",
            "good",
        )
    r_hat = np.where(in_play, np.nan_to_num(d.r_hat, nan=1.0), 0.0)
    ess = np.where(in_play, np.nan_to_num(d.ess, nan=np.inf), np.inf)
    mcse = np.where(in_play, np.nan_to_num(d.mcse, nan=np.inf), 0.0)
    r, e, m = int(np.argmax(r_hat)), int(np.argmin(ess)), int(np.argmax(mcse))
    if np.isinf(mcse[m]):
        return "There are too few batches to judge the chains by; run longer.", "bad"
    text = (
        f"R-hat is at most {r_hat[r]:.3f} ({names[r]}), the effective sample size at least "
        f"{_count(int(ess[e]))} ({names[e]}), and the Monte Carlo error at most {mcse[m]:.2g} ({names[m]})"
    )
    hints = []
    if r_hat[r] > UNSURE:
        hints.append("the chains have not quite mixed")
    if mcse[m] > COARSE:
        hints.append("the second decimal is not settled")
    return (f"{text}: {' and '.join(hints)}; run longer.", "doubtful") if hints else (f"{text}.", "good")


def _constant(d: Diagnostics, names: Sequence[str]) -> tuple[str, str]:
    """Terms in at every step: R-hat and effective size do not exist for them."""
    sure = np.flatnonzero(d.frequency == 1.0)
    if not len(sure):
        return "", "good"
    return f"{_list(names, sure)} {'was' if len(sure) == 1 else 'were'} always included.", "good"


def _outside(unvisited: float, algorithm: str) -> tuple[str, str]:
    """Mass of the models that no chain visited.

    Over a fixed list of terms it leaves the level alone. Every term has its frequency, and R-hat and the Monte
    Carlo error judge that directly: in a wide, flat posterior hardly a model is visited twice, and frequencies are
    right all the same. What is lost are probabilities of single models and renormalised estimates, and where these
    go astray they disagree with the frequencies, which is judged above. Over features it is another matter: what
    was not visited may hold features that nobody has met, which have no row in any table and no R-hat to warn.
    """
    if np.isnan(unvisited):
        return "", "good"
    start = f"Models that no chain visited are estimated to hold {_percent(unvisited)} of the posterior"
    if unvisited <= UNVISITED:
        return f"{start}.", "good"
    if algorithm == "mjmcmc":
        return f"{start}: probabilities of single models suffer from that, frequencies of terms do not.", "good"
    return f"{start}, perhaps with features that were not met; run longer.", "doubtful"


def _library(features: int, algorithm: str) -> tuple[str, str]:
    """Features that a sample of the rows chose once and for all."""
    if algorithm != "mjmcmc" or not features:
        return "", "good"
    return (
        f"A search on a sample of the rows chose the {_count(features)} features of these models.",
        "good",
    )


def _percent(share: float) -> str:
    """A share for reading, never rounded to nothing or to everything."""
    if share < 0.001:
        return "less than 0.1%"
    if share > 0.99:
        return "more than 99%"
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"


def _unfinished(finished: bool) -> tuple[str, str]:
    if finished:
        return "", "good"
    return "The run was interrupted before its budget was spent: these are partial results.", "doubtful"


def _list(names: Sequence[str], which: np.ndarray, most: int = 4) -> str:
    shown = [names[j] for j in which[:most]]
    if len(which) > most:
        return f"{', '.join(shown)} and {len(which) - most} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _count(number: int) -> str:
    """A whole number with its thousands apart."""
    return f"{number:,}".replace(",", " ")
