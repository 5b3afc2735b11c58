"""A verdict in plain sentences, for people who do not read diagnostics: on mixing, and on the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from modejump.samplers.diagnostics import APART, Diagnostics
from modejump.samplers.result import Result, SearchCounts

if TYPE_CHECKING:
    from modejump.posterior.posterior import Posterior

# Levels of mixing from best to worst.
LEVELS = ("exact", "good", "doubtful", "bad")
COMPLETE, WELL_SEARCHED, UNCERTAIN = "complete", "well searched", "uncertain"
# R-hat above this (an effective sample of about fifty in a half chain) leaves doubt.
UNSURE = 1.01
# Monte Carlo errors above this leave the second decimal in doubt.
COARSE = 0.01
# Among thousands of terms some rare one always looks unmixed. Terms of a probability below this, or above one minus
# this, that have the second decimal settled change no answer and are not judged by their R-hat.
RARE = 0.05
# Frequency and renormalised estimates further apart than this, and than four Monte Carlo errors, disagree.
DISAGREE = 0.05
_ERRORS = 4.0
# Posterior mass outside of the visited models above this is worth a warning.
UNVISITED = 0.05
# A search for laws is good where so many independent searches at least, and this share of them, met the best model.
REACHED, REACHED_SHARE = 4, 0.1


class Verdict(str):
    """A verdict: text of a few sentences with two attributes.

    Attributes
    ----------
    level : str
        Mixing, whether the frequencies have converged: "exact", "good", "doubtful" or "bad".
    search : str
        Whether better models may have been missed: "complete", "well searched" or "uncertain".
    """

    level: str
    search: str

    def __new__(cls, text: str, level: str, search: str) -> Verdict:
        """A text with what it says about mixing and about the search."""
        self = super().__new__(cls, text)
        self.level, self.search = level, search
        return self

    def __reduce__(self) -> tuple[type[Verdict], tuple[str, str, str]]:
        """What a copy is made from; without it neither copy nor pickle knows the attributes."""
        return Verdict, (str(self), self.level, self.search)


def verdict(posterior: Posterior) -> Verdict:
    """Say how far the probabilities of this posterior may be trusted, and whether better models may be missing.

    Returns
    -------
    Verdict
        A string with two attributes.

        ``level`` is about mixing: "exact" after enumeration; "good" where chains agree with each other and with the
        renormalised estimate; "doubtful" where R-hat exceeds 1.01, a Monte Carlo error exceeds 0.01, the two estimates
        differ by more than 0.05 and four Monte Carlo errors, the errors are too large to tell, or the run was
        interrupted; "bad" where chains sit apart (R-hat above 1.05) or nothing was sampled. Terms of a probability
        below 0.05 or above 0.95 with a Monte Carlo error of at most 0.01 are not judged by their R-hat.

        ``search`` is about models that nobody met: "complete" after enumeration. Among features it is "well searched"
        where at least four independent searches, and a tenth of them, met the best model of the run, which has a
        feature (or, where a sample of the rows was searched, one as good by the sample), and models that no chain
        visited hold at most 0.05 of the posterior; among given terms, where at least
        two chains, and half of them, visited the best model; otherwise "uncertain". A search among features that does
        not sample has no frequencies, so that its level is "good" where it is well searched, and "doubtful" otherwise.
    """
    result = posterior.result
    if result.exact:
        return _enumerated(posterior)
    found, search = _search(result)
    stopped = _unfinished(result.finished)
    if result.algorithm == "gmjmcmc":
        start = f"Renormalised over {count(result.n_models)} model{'s' if result.n_models > 1 else ''} found."
        level = "good" if search == WELL_SEARCHED and result.finished else "doubtful"
        return Verdict(" ".join(text for text in (start, found, stopped[0]) if text), level, search)
    d = posterior.diagnostics
    if d is None:
        text = (
            f"No sampling step was recorded, so the probabilities are renormalised over the "
            f"{count(result.n_models)} models evaluated in warm-up and carry no error estimate; run longer."
        )
        return Verdict(text, "bad", UNCERTAIN)
    names = posterior.problem.names
    parts = [
        _agreement(posterior, d),
        _chains(d, names),
        _constant(d, names),
        (found, "good"),
        _library(result.library, result.algorithm),
        stopped,
    ]
    level = max((level for _, level in parts), key=LEVELS.index)
    return Verdict(" ".join(text for text, _ in parts if text), level, search)


def _enumerated(posterior: Posterior) -> Verdict:
    """Where all models were evaluated."""
    result = posterior.result
    all_models = f"All {count(result.n_models)} models were"
    start = "The only possible model was" if result.n_models == 1 else all_models
    lost = _lost_digits(result.models.log_posterior)
    if lost:
        return Verdict(f"{start} evaluated. {lost}", "doubtful", COMPLETE)
    return Verdict(f"{start} evaluated{_exactly(posterior)}", "exact", COMPLETE)


def _exactly(posterior: Posterior) -> str:
    """What remains approximate where all models were evaluated."""
    family = posterior.problem.family
    if family.conjugate or family.custom:
        return ": the probabilities are exact."
    if posterior.result.n_models == 1:
        return "; its marginal likelihood is a Laplace approximation."
    return "; their marginal likelihoods are Laplace approximations."


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


# --- search -----------------------------------------------------------------------------------------------------------


def well_searched(result: Result) -> bool:
    """Whether so many independent searches for laws met the best model that hardly a better one is left.

    Where that is the model without any feature, searches agree that they found nothing, which says nothing about laws
    that are hard to find.
    """
    counts = result.search
    if counts is None or not result.models.words[0].any():
        return False
    return counts.reached >= max(REACHED, REACHED_SHARE * counts.searches)


def _search(result: Result) -> tuple[str, str]:
    """What is known about models that nobody met."""
    counts, unvisited = result.search, result.unvisited
    if result.search_best is None or not len(result.search_best):
        return _visited_best(counts, unvisited)
    assert counts is not None
    good = well_searched(result)
    text, mass = _ended(counts, good, bool(result.models.words[0].any())), _unvisited(unvisited)
    if mass and unvisited > UNVISITED:
        return f"{text} {mass}, perhaps with features that were not met; run longer.", UNCERTAIN
    return f"{text} {mass}." if mass else text, WELL_SEARCHED if good else UNCERTAIN


def _ended(counts: SearchCounts, good: bool, any_feature: bool) -> str:
    """How independent searches among features ended."""
    if counts.searches == 1:
        return "There was one search, so nothing tells whether it found the best model; run more chains."
    who = f"{count(counts.reached) if counts.reached else 'None'} of {count(counts.searches)} independent searches"
    if counts.reached and not any_feature:
        return f"{who} found nothing worth a feature: noise looks like that, and so does a law that is hard to find."
    later = "" if counts.reached else ", which was found later"
    return f"{who} met the best model{later}{'.' if good else ', so better ones may be left to find; run longer.'}"


def _visited_best(counts: SearchCounts | None, unvisited: float) -> tuple[str, str]:
    """The same where all terms are known.

    Unvisited models hide no term there: every term has its frequency, and R-hat and the Monte Carlo error judge that
    directly. In a wide, flat posterior hardly a model is visited twice, and frequencies are right all the same; what is
    lost are probabilities of single models and renormalised estimates.
    """
    mass = _unvisited(unvisited)
    if mass and unvisited > UNVISITED:
        mass += ": probabilities of single models suffer from that, frequencies of terms do not"
    text = f"{mass}." if mass else ""
    if counts is None:
        return text, UNCERTAIN
    good = counts.reached >= max(2, counts.searches / 2)
    if not good and counts.searches > 1:
        who = "None" if counts.reached == 0 else f"Only {counts.reached}"
        text += f" {who} of {counts.searches} chains visited the best model, so a better one may exist."
    return text.strip(), WELL_SEARCHED if good else UNCERTAIN


def _unvisited(unvisited: float) -> str:
    """Mass of the models that no chain visited, without a full stop; empty where nobody knows."""
    if np.isnan(unvisited):
        return ""
    return f"Models that no chain visited are estimated to hold {_percent(unvisited)} of the posterior"


# --- mixing -----------------------------------------------------------------------------------------------------------


def _agreement(posterior: Posterior, d: Diagnostics) -> tuple[str, str]:
    """Frequencies against renormalised estimates."""
    result = posterior.result
    assert result.batch_means is not None
    chains = result.batch_means.shape[0]
    start = f"Over {count(result.steps)} steps of {chains} chain{'s' if chains > 1 else ''},"
    if len(d.frequency) == 0:
        return f"{start} frequencies have nothing to count: no term can enter or leave.", "good"
    other, what = posterior.renormalised, f"estimates renormalised over {count(result.n_models)} models"
    if result.rao_blackwell is not None and result.laws is not None:
        language: Any = result.laws.language
        other = result.rao_blackwell[[language.place(f) for f in result.laws.features]]
        what = f"conditional probabilities of all {count(len(result.rao_blackwell))} columns given models drawn"
    gap, error = np.abs(d.frequency - other), np.nan_to_num(d.mcse, nan=np.inf)
    apart = (gap > DISAGREE) & (gap > _ERRORS * error)
    unclear = _ERRORS * error > DISAGREE
    # Name the difference that decides: one that is there, one that could not be seen, or the largest.
    decides = apart if apart.any() else unclear if unclear.any() else np.ones(len(gap), bool)
    at = int(np.argmax(np.where(decides, gap, -1.0)))
    where = f"{gap[at]:.2g} ({posterior.problem.names[at]}{_in_errors(gap[at], d.mcse[at])})"
    if apart.any():
        text = f"frequencies disagree with {what}: the largest difference is {where}, so the chains may have missed"
        return f"{start} {text} part of the posterior.", "doubtful"
    if unclear.any():
        text = f"the errors are too large to tell whether frequencies agree with {what}: the largest difference is"
        return f"{start} {text} {where}; run longer.", "doubtful"
    return f"{start} frequencies agree with {what}: the largest difference is {where}.", "good"


def _in_errors(gap: float, mcse: float) -> str:
    if gap == 0.0 or np.isnan(mcse):
        return ""
    return f", {gap / mcse:.1f} Monte Carlo errors" if mcse > 0.0 else ", whose frequency has no variation"


def _chains(d: Diagnostics, names: Sequence[str]) -> tuple[str, str]:
    """R-hat, effective sample size and Monte Carlo error; silent on terms that never changed."""
    varied = (d.frequency > 0.0) & (d.frequency < 1.0)
    rare = np.minimum(d.frequency, 1.0 - d.frequency) < RARE
    in_play = varied & ~(rare & (d.mcse <= COARSE))
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
        return (f"The Monte Carlo error is at most {d.mcse.max():.2g} ({names[int(np.argmax(d.mcse))]}).", "good")
    r_hat = np.where(in_play, np.nan_to_num(d.r_hat, nan=1.0), 0.0)
    ess = np.where(in_play, np.nan_to_num(d.ess, nan=np.inf), np.inf)
    mcse = np.where(in_play, np.nan_to_num(d.mcse, nan=np.inf), 0.0)
    r, e, m = int(np.argmax(r_hat)), int(np.argmin(ess)), int(np.argmax(mcse))
    if np.isinf(mcse[m]):
        return "There are too few batches to judge the chains by; run longer.", "bad"
    text = (
        f"R-hat is at most {r_hat[r]:.3f} ({names[r]}), the effective sample size at least "
        f"{count(int(ess[e]))} ({names[e]}), and the Monte Carlo error at most {mcse[m]:.2g} ({names[m]})"
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


def _library(features: int, algorithm: str) -> tuple[str, str]:
    """Features that a sample of the rows chose once and for all."""
    if algorithm != "mjmcmc" or not features:
        return "", "good"
    return (f"A search on a sample of the rows chose the {count(features)} features of these models.", "good")


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


def count(number: int) -> str:
    """A whole number with its thousands apart."""
    return f"{number:,}".replace(",", " ")
