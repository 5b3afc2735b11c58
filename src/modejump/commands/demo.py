"""``modejump demo``: worked examples on data that need no file, from start to finish."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from modejump.commands.files import STANDARD
from modejump.commands.output import check_json, check_plot, posterior_content, write_json
from modejump.commands.render import print_summary
from modejump.core.errors import InputError
from modejump.estimators.bglm import BGLMRegressor
from modejump.estimators.bgnlm import BGNLMRegressor
from modejump.estimators.logic import LogicRegressor
from modejump.features.logic.space import LogicSpace
from modejump.priors.complexity import ComplexityPrior
from modejump.samplers.budget import Budget

_LEVEL = 0.9
_RESERVED = ("crime",)


@dataclass(frozen=True)
class LawDemo:
    """A law hidden in simulated planets: the column to explain, what to say of it, and how to draw it."""

    target: str
    question: str
    law: str
    unit: str


LAWS = {
    "kepler": LawDemo(
        "SemiMajorAxis",
        "How does the size of an orbit follow from the other nine columns?",
        "Kepler's third law, a³ = M P²: SemiMajorAxis = cbrt(StarMass*Period^2)",
        "semi-major axis (au)",
    ),
    "mass": LawDemo(
        "Mass",
        "How does the mass of a planet follow from the other nine columns?",
        "the mass of a sphere, M = R³ ρ: Mass = Density*Radius^3",
        "mass (of Jupiter)",
    ),
}
DEMOS = (*LAWS, "logic", "diabetes")


def run_demo(name: str, plot: Path | None = None, json: Path | None = None) -> None:
    """Run one demonstration.

    Parameters
    ----------
    name : str
        Which one.
    plot : path, optional
        File of the plot; by default the demo's name with ``.png``, where Matplotlib is installed.
    json : path, optional
        File to write what is said about the posterior to, as JSON; ``-`` for standard output, which holds nothing else
        then.
    """
    known = ", ".join(map(repr, DEMOS))
    if name in _RESERVED:
        raise InputError(f"the demo {name!r} is not part of this version; choose one of {known}.")
    if name not in DEMOS:
        raise InputError(f"unknown demo {name!r}; choose one of {known}.")
    check_json(json)
    check_plot(plot)
    if plot is not None and name not in LAWS:
        raise InputError(f"the demo {name!r} draws no plot; leave --plot out.")
    console = Console(quiet=json == STANDARD)
    if name in LAWS:
        model = _discover(console, name, plot)
    else:
        model = {"logic": _logic, "diabetes": _diabetes}[name](console)
    if json is not None:
        write_json(posterior_content(model, name), json)


def _discover(console: Console, name: str, plot: Path | None) -> Any:
    from modejump.experiments.planets import simulate_planets

    demo = LAWS[name]
    planets = simulate_planets(250)
    X, y = planets.drop(columns=demo.target), planets[demo.target]
    train, test = slice(0, 200), slice(200, 250)
    _say(
        console,
        f"A simulated catalogue of {len(planets)} planets. {demo.question} The search knows no physics: it builds "
        "powers, products and functions of the columns, samples models of them by their posterior probability, and is "
        "shown 200 planets; the other 50 are kept to check the predictions. The first run also compiles the program.",
    )
    model = BGNLMRegressor(random_state=1).fit(X[train], y[train])
    print_summary(model.page(features=6, models=3), console, f"{name}: which law explains {demo.target}?")
    _say(console, f"The law found: {demo.target} = {model.equation()}. Hidden in the data was {demo.law}.")
    _check(console, model, X[test], y[test], "planets")
    if plot is not None or find_spec("matplotlib") is not None:
        path = Path(f"{name}.png") if plot is None else plot
        _draw(model, X[test], y[test], demo, path)
        _say(console, f"The plot is in {path}.")
    _say(console, "The same on your own data:  modejump fit DATA.csv --target COLUMN --algorithm rgmjmcmc")
    return model


def _draw(model: Any, X: pd.DataFrame, y: pd.Series, demo: LawDemo, path: Path) -> None:
    from modejump.plots import plot_inclusion, plot_prediction
    from modejump.plots.style import import_pyplot

    pyplot = import_pyplot()
    with pyplot.ioff():
        figure, (left, right) = pyplot.subplots(
            1, 2, figsize=(10.5, 4.2), width_ratios=[1.0, 1.15], layout="constrained"
        )
    plot_prediction(model, X, y, level=_LEVEL, log=True, ax=left)
    left.set(xlabel=f"predicted {demo.unit}", ylabel=f"observed {demo.unit}", title="planets kept aside")
    plot_inclusion(model, most=8, ax=right)
    right.set_title("laws")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _logic(console: Console) -> Any:
    from modejump.experiments.logic import COVARIATES, LEAVES, simulate_logic

    table = simulate_logic(1200)
    X, y = table.drop(columns="Y"), table["Y"]
    train, test = slice(0, 1000), slice(1000, 1200)
    _say(
        console,
        f"Simulated data: a response Y and {COVARIATES} columns of zeros and ones. Two of the columns raise Y by "
        "themselves; others do where two, three or four of them are one at once. Which? The search joins columns by "
        "and, or, not. It is shown 1000 rows; the other 200 are kept to check the predictions. The first run also "
        "compiles the program.",
    )
    # Under the logic prior a third of the posterior is spread over millions of superfluous terms, each next to nothing;
    # where each column has its price, chains of a few seconds say all there is to say.
    model = LogicRegressor(
        coef_prior="bic",
        model_prior=ComplexityPrior("1/n"),
        space=LogicSpace(leaves=LEAVES),
        chains=4,
        budget=Budget(steps=100_000),
        random_state=1,
    )
    model.fit(X[train], y[train])
    print_summary(model.page(features=10, models=3), console, "logic: which columns raise Y together?")
    _say(
        console,
        "Hidden in the data were X7, X8, X2 & X9, X18 & X21, X1 & X3 & X27, X12 & X20 & X37, X4 & X10 & X17 & X30 and "
        "X11 & X13 & X19 & X50.",
    )
    _check(console, model, X[test], y[test], "rows")
    _say(console, "The experiment that these data come from:  modejump reproduce logic --runs 5 --budget seconds=10")
    return model


def _diabetes(console: Console) -> Any:
    from sklearn.datasets import load_diabetes

    held_out = 142
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    order = np.random.default_rng(1).permutation(len(X))
    test, train = np.sort(order[:held_out]), np.sort(order[held_out:])
    _say(
        console,
        f"Diabetes data: progression of the disease in {len(X)} patients after one year, and ten "
        f"measurements at its start. Which of them matter? All 2^10 models are weighed on {len(train)} "
        f"patients; the other {len(test)} are kept to check the predictions.",
    )
    model = BGLMRegressor(random_state=1).fit(X.iloc[train], y.iloc[train])
    print_summary(model.page(), console, "diabetes: which measurements matter")
    _check(console, model, X.iloc[test], y.iloc[test], "patients")
    _say(console, "The same on your own data:  modejump fit DATA.csv --target COLUMN")
    return model


def _check(console: Console, model: Any, X: pd.DataFrame, y: pd.Series, who: str) -> None:
    """How the predictions did on rows kept aside."""
    predicted = model.predict(X, interval=_LEVEL)
    inside = ((y >= predicted["lower"]) & (y <= predicted["upper"])).to_numpy()
    share = model.score(X, y)
    text = (
        f"R² there is {share:.2f}" if share < 0.99 else f"{1.0 - share:.1g} of the variance there is left unexplained"
    )
    _say(
        console,
        f"Of the {len(y)} {who} kept aside, {int(inside.sum())} ({inside.mean():.0%}) fall inside "
        f"their {_LEVEL:.0%} prediction interval; {text}.",
    )


def _say(console: Console, text: str) -> None:
    console.print(Padding(Text(text), (0, 1, 1, 1)))
