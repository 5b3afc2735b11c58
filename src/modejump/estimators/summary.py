"""The posterior on one page, as data for any renderer and as plain text."""

from __future__ import annotations

import dataclasses
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import printable
from modejump.features.covariates.language import Covariates
from modejump.features.logic.expression import in_brackets
from modejump.features.logic.language import Logic
from modejump.posterior.posterior import Posterior
from modejump.problem.problem import Problem
from modejump.samplers.result import Result

WIDTH = 88
BAR = 24
SIZES = 8
# Spellings of one law that are shown.
ALIASES = 3
_EIGHTHS = " ▏▎▍▌▋▊▉█"
# What a page is about, and what the terms of its models are called, by language of features.
_SUBJECTS = {
    "": ("Bayesian variable selection", "term"),
    Covariates.name: ("Bayesian variable selection", "column"),
    Logic.name: ("Bayesian logic regression", "feature"),
}
_LAWS = ("Bayesian search for laws", "law")


@dataclass(frozen=True)
class FeatureLine:
    """One term: its inclusion probability and, where it was sampled, the Monte Carlo standard error.

    ``r_hat`` is None where the page does not show it, and NaN for a term that never changed.
    """

    name: str
    probability: float
    mcse: float | None
    aliases: tuple[str, ...] = ()
    r_hat: float | None = None

    @property
    def also(self) -> str:
        """Other features with the same column, up to scale; empty without any."""
        more = len(self.aliases) - ALIASES
        shown = ", ".join(self.aliases[:ALIASES]) + (f" and {more} more" if more > 0 else "")
        return f"also {shown}" if shown else ""

    @property
    def value(self) -> str:
        """Probability, with its error where there is one."""
        if self.mcse is None:
            return f"{self.probability:.4f}"
        error = "?" if np.isnan(self.mcse) else f"{self.mcse:.4f}"
        return f"{self.probability:.4f} ± {error}"

    @property
    def mixing(self) -> str:
        """R-hat; a dash for a term that never changed, empty where the page does not show it."""
        if self.r_hat is None:
            return ""
        return "-" if np.isnan(self.r_hat) else f"{self.r_hat:.3f}"


@dataclass(frozen=True)
class ModelLine:
    """One model: its probability and its terms."""

    probability: float
    features: tuple[str, ...]

    @property
    def value(self) -> str:
        """The terms in words."""
        return " + ".join(self.features) if self.features else "(none of them)"


@dataclass(frozen=True)
class ConstantLine:
    """One constant inside the best model, with the ends of its interval and a simple value it may have."""

    name: str
    value: float
    lower: float
    upper: float
    simple: str

    @property
    def words(self) -> str:
        """The constant on one line."""
        perhaps = f", perhaps {self.simple}" if self.simple else ""
        return f"{self.name} = {self.value:.4g}, from {self.lower:.4g} to {self.upper:.4g}{perhaps}"


@dataclass(frozen=True)
class Summary:
    """What a page about a posterior says.

    Attributes
    ----------
    facts : tuple of (str, str)
        Data, priors and algorithm, each with a label.
    verdict, level, search : str
        Sentences about mixing and search, and what they come to.
    features, models : tuple
        The leading ones of each.
    more_features : int
        How many features are not listed.
    sizes : tuple of (int, float)
        The likely numbers of terms with their probabilities.
    mean_size : float
        Posterior mean of the number of terms.
    equation : str
        The best model with its coefficients; empty where the models are lists of columns.
    title : str
        What the page is about.
    law : str
        The best model with its constants by name.
    constants : tuple of ConstantLine
        These constants with intervals of 90 %; none where it has none.
    """

    facts: tuple[tuple[str, str], ...]
    verdict: str
    level: str
    search: str
    features: tuple[FeatureLine, ...]
    more_features: int
    models: tuple[ModelLine, ...]
    sizes: tuple[tuple[int, float], ...]
    mean_size: float
    equation: str = ""
    title: str = "Bayesian variable selection"
    law: str = ""
    constants: tuple[ConstantLine, ...] = ()

    @property
    def constant_words(self) -> tuple[str, ...]:
        """Constants of the best model on a line each, below a heading; nothing where it has none."""
        if not self.constants:
            return ()
        return (f"constants of {self.law}, with 90 % intervals", *(f"  {line.words}" for line in self.constants))

    @property
    def verdict_words(self) -> str:
        """Mixing and search in a word each, then the sentences."""
        return f"Mixing: {self.level}. Search: {self.search}. {self.verdict}"

    @property
    def size_words(self) -> str:
        """The mean number of terms, in words."""
        return f"Terms in the model, {self.mean_size:.2f} on average"

    def text(self) -> str:
        """Plain text of at most 88 columns."""
        indent = 2 + max(len(label) for label, _ in (*self.facts, ("verdict", "")))
        lines = [self.title, "=" * len(self.title)]
        for label, value in (*self.facts, ("verdict", self.verdict_words)):
            lines += textwrap.wrap(value, WIDTH, initial_indent=label.ljust(indent), subsequent_indent=" " * indent)
        lines += ["", *self._feature_lines()]
        if self.equation:
            lines += ["", "best model, with coefficients"]
            lines += textwrap.wrap(self.equation, WIDTH, initial_indent="  ", subsequent_indent="    ")
            for words in self.constant_words:
                lines += textwrap.wrap(words, WIDTH, initial_indent="  ", subsequent_indent="    ")
        lines += ["", "probability  model (highest log posterior first)"]
        for m in self.models:
            head = f"{m.probability:>11.4f}  "
            lines += textwrap.wrap(m.value, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
        shown = ", ".join(f"{size}\N{NO-BREAK SPACE}({share:.3f})" for size, share in self.sizes)
        lines += ["", *textwrap.wrap(f"{self.size_words}: {shown}.", WIDTH)]
        return "\n".join(lines)

    def _feature_lines(self) -> list[str]:
        mixing = any(f.mixing for f in self.features)
        room = WIDTH - (27 if mixing else 20)
        # Laws are long: where they need the room, the bars give it.
        longest = max([len("feature"), *(len(f.name) for f in self.features)])
        width = BAR if longest <= room - BAR else BAR // 2
        wide = min(longest, room - width)
        values = max([len("probability"), *(len(f.value) for f in self.features)])
        lines = [f"{'feature':<{wide}}  {'probability':>{values}}" + ("  R-hat" if mixing else "")]
        for f in self.features:
            number = f"{f.value:>{values}}" + (f"  {f.mixing:>5}" if mixing else "")
            lines.append(f"{shorten(f.name, wide):<{wide}}  {number}  {bar(f.probability, width)}".rstrip())
            lines += textwrap.wrap(f.also, WIDTH, initial_indent="    ", subsequent_indent="    ")
        if self.more_features:
            lines.append(f"... and {self.more_features} more")
        return lines


def summarise(
    posterior: Posterior,
    features: int = 20,
    models: int = 5,
    *,
    response: str = "",
    covariates: str = "",
    prior: Any = None,
    equation: str = "",
    law: str = "",
    constants: pd.DataFrame | None = None,
) -> Summary:
    """Collect the page.

    Parameters
    ----------
    posterior : Posterior
        What it is about.
    features, models : int
        How many of each to list.
    response : str
        Family and link in words; empty where they need none.
    covariates : str
        After a search: what the features are made of, in words.
    prior : prior object, optional
        Prior of the models, where that of the problem is made from another.
    equation : str
        The best model with its coefficients; empty where the models are lists of columns.
    law : str
        The best model with its constants by name.
    constants : DataFrame, optional
        These constants, with intervals of 90 %.
    """
    table, laws = posterior.inclusion, posterior.laws is not None
    shown = table.head(features)
    mcse = [None] * len(shown) if posterior.exact or posterior.diagnostics is None else shown["mcse"].tolist()
    r_hat = shown["r_hat"].tolist() if laws and posterior.diagnostics is not None else [None] * len(shown)
    names = [printable(name) for name in shown.index]
    aliases = [tuple(map(printable, a)) for a in shown["aliases"]] if laws else [()] * len(shown)
    leading = posterior.models(models)
    sizes = posterior.size_distribution.to_numpy()
    spelt = in_brackets if posterior.laws is not None and posterior.laws.language.name == Logic.name else str
    likely = np.sort(np.argsort(-sizes, kind="stable")[:SIZES])
    return Summary(
        facts=_facts(posterior, response, covariates, prior or posterior.problem.model_prior),
        verdict=str(posterior.verdict),
        level=posterior.verdict.level,
        search=posterior.verdict.search,
        features=tuple(map(FeatureLine, names, shown["probability"].tolist(), mcse, aliases, r_hat)),
        more_features=max(0, len(table) - features),
        models=tuple(
            ModelLine(p, tuple(printable(spelt(text)) for text in f))
            for p, f in zip(leading["probability"].tolist(), leading["features"])
        ),
        sizes=tuple((int(k), float(sizes[k])) for k in likely if sizes[k] >= 0.0005),
        mean_size=float(sizes @ np.arange(len(sizes))),
        equation=printable(equation),
        title=_subject(posterior)[0],
        law=printable(law),
        constants=() if constants is None else tuple(ConstantLine(*row) for row in constants.itertuples()),
    )


def _subject(posterior: Posterior) -> tuple[str, str]:
    return _SUBJECTS.get("" if posterior.laws is None else posterior.laws.language.name, _LAWS)


def _facts(posterior: Posterior, response: str, covariates: str, prior: Any) -> tuple[tuple[str, str], ...]:
    problem, result = posterior.problem, posterior.result
    more: list[tuple[str, str]] = []
    found = f"{plural(result.n_models, 'model')} of {plural(problem.n_terms, _subject(posterior)[1])}"
    if posterior.reweighting is not None:
        how = f"{posterior.reweighting.algorithm.upper()}, then reweighted to {posterior.reweighting.what}; {found}"
    elif result.algorithm == "gmjmcmc":
        chains = 1 if result.chain_best is None else len(result.chain_best)
        how = (
            f"GMJMCMC, {plural(chains, 'chain')}, {plural(result.populations, 'population')}, "
            f"{plural(result.restarts, 'restart')}, {result.seconds:.3g} s; {found} kept"
        )
    elif result.algorithm == "rgmjmcmc":
        how, more = f"RGMJMCMC, {_chains(result)}; {found}", _reversible_facts(result)
    elif result.exact:
        how = f"enumeration of {count(result.n_models)} models in {result.seconds:.2g} s"
    else:
        how = f"MJMCMC, {_chains(result)}; {count(result.n_models)} distinct models evaluated"
        if result.library:
            more = [("library", f"{plural(result.library, 'feature')}, found by GMJMCMC on a sample of the rows")]
    own = problem.family.custom
    g = problem.data.coef_prior.par[0] if problem.coef_prior.name == "g" else None
    return (
        ("data", _data(problem, covariates)),
        *([("response", response)] if response else []),
        ("coefficients", "integrated out by the likelihood" if own else describe_prior(problem.coef_prior, g=g)),
        ("models", describe_prior(prior)),
        ("algorithm", how),
        *more,
        *(("note", note) for note in result.notes),
    )


def _data(problem: Problem, covariates: str) -> str:
    always = (["intercept"] if problem.intercept else []) + list(problem.always_in)
    if covariates:
        fixed = f"; always in: {', '.join(always)}" if problem.always_in else ""
        return f"{_observations(problem)}, {covariates}{fixed}"
    data = f"{_observations(problem)}, {count(problem.n_terms)} terms to select"
    if problem.n_columns > problem.n_terms:
        data += f" ({count(problem.n_columns)} columns)"
    return data + (f"; always in: {', '.join(always)}" if always else "; no intercept")


def _chains(result: Result) -> str:
    """Chains, steps and time of a sampler."""
    chains = 1 if result.batch_means is None else len(result.batch_means)
    return (
        f"{plural(chains, 'chain')}, {count(result.steps)} steps after {count(result.warmup_steps)} of warm-up, "
        f"{result.warmup_seconds + result.seconds:.3g} s"
    )


def _reversible_facts(result: Result) -> list[tuple[str, str]]:
    """What only reversible sampling of features has to tell: library, unvisited mass, acceptance."""
    library = plural(result.library, "feature")
    if not np.isnan(result.library_share):
        library += f", which hold the whole model at {result.library_share:.1%} of the steps"
    facts = [("library", library)]
    if not np.isnan(result.unvisited):
        facts.append(("unvisited", f"{result.unvisited:.2g} of the posterior mass, by leaving out one chain at a time"))
    rates = [f"{name} {_rate(accepted, tried)}" for name, (tried, accepted) in result.acceptance.items()]
    for name, (tried, changed, missed) in result.population_moves.items():
        lost = f" ({_rate(missed, tried)} without a way back)" if tried else ""
        rates.append(f"{name} {_rate(changed, tried)}{lost}")
    return [*facts, ("acceptance", ", ".join(rates))] if rates else facts


def _rate(part: int, whole: int) -> str:
    return f"{part / whole:.2g}" if whole else "untried"


def _observations(problem: Problem) -> str:
    if problem.data.n != problem.rows:
        return f"{problem.data.n:g} observations in {count(problem.rows)} distinct rows"
    return f"{count(problem.rows)} rows"


def plural(number: int, noun: str) -> str:
    """A number of things."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def describe_prior(prior: Any, **known: Any) -> str:
    """A prior's name with its parameters; ``known`` fills those that were left to the data."""
    values = {f.name: getattr(prior, f.name) for f in dataclasses.fields(prior)}
    for name, value in known.items():
        if name in values and values[name] is None:
            values[name] = value
    given = {name: value for name, value in values.items() if value is not None}
    inside = ", ".join(f"{k} = {v:g}" if isinstance(v, float) else f"{k} = {v}" for k, v in given.items())
    return f"{prior.name} ({inside})" if inside else str(prior.name)


def count(number: int) -> str:
    """A whole number with spaces between thousands."""
    return f"{number:,}".replace(",", "\N{NO-BREAK SPACE}")


def bar(share: float, width: int = BAR) -> str:
    """A bar of block characters.

    Examples
    --------
    >>> bar(0.5, width=4)
    '██'
    """
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def shorten(name: str, width: int) -> str:
    """A name cut to a width."""
    return name if len(name) <= width else name[: width - 1] + "…"
