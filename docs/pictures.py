"""Draw the pictures of README and guide into docs/_static.

``python docs/pictures.py`` draws all of them, ``python docs/pictures.py kepler dataflow`` some. Examples of the gallery
draw their own when the documentation is built.
"""

from __future__ import annotations

import runpy
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.patches import FancyBboxPatch
from PIL import Image
from sklearn.datasets import load_diabetes

import modejump
from modejump import plots
from modejump.experiments import load_exoplanets, simulate_planets
from modejump.likelihoods.gaussian.marginal import log_marginal
from modejump.plots import plot_law_table
from modejump.plots.style import ACCENT, CYCLE, DARK, GREY, PALE, STRONG, WEAK, tidy

STATIC = Path(__file__).resolve().parent / "_static"
EXAMPLES = STATIC.parent.parent / "examples"
LINE = GREY


def save(figure: Any, path: Path) -> None:
    """Write a picture; one of dots with at most 64 colours, which is all that it has, so that it is small."""
    if path.suffix == ".svg":
        figure.savefig(path, metadata={"Date": None})
    else:
        figure.savefig(path, dpi=110)
        Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)
    plt.close(figure)


def panels(*widths: float, height: float = 3.6, width: float = 10.0) -> tuple[Any, Any]:
    """A figure with panels side by side, of these relative widths."""
    return plt.subplots(1, len(widths), figsize=(width, height), width_ratios=widths, layout="constrained")


def from_example(name: str, path: Path, figure: int = 1) -> None:
    """One figure of an example of the gallery."""
    plt.close("all")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(str(EXAMPLES / f"{name}.py"))
    save(plt.figure(figure), path)
    plt.close("all")


def diabetes() -> tuple[Any, Any]:
    """The table that most pages use."""
    return load_diabetes(return_X_y=True, as_frame=True)


def draw_kepler(path: Path) -> None:
    """Kepler's third law in the observed planets: orbits that the fit has not seen, and simpler laws."""
    planets = load_exoplanets()
    X, y = planets.drop(columns="SemiMajorAxisAU"), planets["SemiMajorAxisAU"]
    new = planets.index % 4 == 0
    told = {"random_state": 1, "progress": False}
    model = modejump.BGNLMRegressor(**told).fit(X[~new], y[~new])
    predicted, observed = model.predict(X[new]), y[new]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 3.6), width_ratios=[1.0, 1.25], layout="constrained")
    ends = [0.7 * observed.min(), 1.4 * observed.max()]
    left.plot(ends, ends, color=GREY, linewidth=0.8, zorder=0)
    left.plot(predicted, observed, "o", markersize=4.5, color=STRONG, alpha=0.6, markeredgewidth=0)
    left.set(xscale="log", yscale="log", xlabel="predicted semi-major axis (au)", ylabel="observed (au)")
    left.set_title(f"{new.sum()} planets that the fit has not seen", fontsize=11)
    model = modejump.BGNLMRegressor(**told).fit(X, y)
    plot_law_table(model, ax=right)
    right.set_title(f"best of each complexity: {_short(right.get_title())}", fontsize=11)
    tidy(left)
    save(figure, path)


def _short(law: str) -> str:
    """A law with the columns' names cut short."""
    names = {"HostStarMassSlrMass": "StarMass", "HostStarRadiusSlrRad": "StarRadius", "HostStarTempK": "StarTemp"}
    for long, short in (names | {"PeriodDays": "Period"}).items():
        law = law.replace(long, short)
    return law


def draw_flow(path: Path) -> None:
    """The way of the data through the package. Boxes are things, and each names the room that makes it."""
    figure, ax = plt.subplots(figsize=(10.5, 3.7), layout="constrained")
    ax.set(xlim=(0, 105), ylim=(0, 37))
    ax.axis("off")
    boxes = [
        (6.5, 12, "Table\nor Source", "data/"),
        (29, 19, "Problem\n$\\pi(M) \\propto p(M)\\,p(y\\,|\\,M)$", "problem/"),
        (51, 12, "Sampler", "samplers/"),
        (67, 12, "Result", "samplers/"),
        (83, 12, "Posterior", "posterior/"),
    ]
    for x, width, name, room in boxes:
        box = FancyBboxPatch((x - width / 2, 14), width, 8.5, boxstyle="round,pad=0,rounding_size=1.2")
        box.set(facecolor=PALE, edgecolor=DARK, linewidth=1.1)
        ax.add_patch(box)
        ax.text(x, 19.3, name, ha="center", va="center", fontsize=10.5, color=DARK)
        ax.text(x, 15, room, ha="center", fontsize=8.5, family="monospace", color=LINE)
    for (first, left, *_), (second, right, *_) in zip(boxes[:-1], boxes[1:], strict=True):
        _arrow(ax, (first + left / 2, 18.2), (second - right / 2, 18.2))
    for y, name in ((25.5, "predictions"), (20.7, "tables, equations"), (15.9, "plots"), (11.1, "stored run")):
        ax.text(94.2, y, name, va="center", fontsize=10, color=DARK)
        _arrow(ax, (89.2, 18.2), (93.8, y))
    for x, room in ((19, "features/"), (29, "priors/"), (40, "likelihoods/"), (51, "kernels/")):
        ax.text(x, 5, room, ha="center", fontsize=9, family="monospace", color=DARK)
        _arrow(ax, (x, 7), (x if x > 45 else 29 + 0.4 * (x - 29), 14))
    ax.text(29, 2.2, "one formula each, plain and compiled", ha="center", fontsize=8, color=LINE)
    ax.text(51, 2.2, "compiled moves", ha="center", fontsize=8, color=LINE)
    ax.text(51, 33.6, "runtime/", ha="center", fontsize=9, family="monospace", color=DARK)
    ax.text(51, 30.8, "progress, executors, checkpoints", ha="center", fontsize=8, color=LINE)
    _arrow(ax, (51, 30), (51, 22.5))
    for x, name in ((16, "prepare"), (41.8, "sample")):
        ax.text(x, 19.4, name, ha="center", fontsize=8.5, style="italic", color=DARK)
    ax.text(0.5, 33.6, "estimators/", fontsize=9, family="monospace", color=DARK)
    ax.text(0.5, 30.8, "fit = prepare, sample, Posterior", fontsize=8, color=LINE)
    save(figure, path)


def _arrow(ax: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": LINE, "linewidth": 1.0, "shrinkA": 1})


def draw_start(path: Path) -> None:
    """Pendulums, and their law."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame(
        {"L": rng.uniform(0.2, 3, 60), "m": rng.uniform(0.1, 2, 60), "g": rng.choice([1.6, 3.7, 8.9, 9.8], 60)}
    )
    y = 2 * np.pi * np.sqrt(X["L"] / X["g"]) * (1 + 0.03 * rng.normal(size=60))
    model = modejump.BGNLMRegressor(budget=modejump.Budget(steps=20_000), random_state=1, progress=False).fit(X, y)
    figure, (left, right) = panels(1.2, 1, height=3.3)
    plots.plot_law(model, X, y, "L", at={"g": 9.8}, ax=left)
    left.set(xlabel="length (m)", ylabel="period (s)")
    plots.plot_inclusion(model, ax=right)
    save(figure, path)


def draw_selection(path: Path) -> None:
    """Inclusion probabilities and leading models of the diabetes data."""
    model = modejump.BGLMRegressor().fit(*diabetes())
    figure, (left, right) = panels(1, 1.6)
    plots.plot_inclusion(model, ax=left)
    plots.plot_models(model, ax=right)
    save(figure, path)


def draw_transforms(path: Path) -> None:
    """Shapes of some transforms."""
    names = "exp log sqrt inv sin cos sigmoid tanh gauss erf relu log1p_abs".split()
    figure, axes = plt.subplots(2, 6, figsize=(10.0, 3.6), layout="constrained")
    x = np.linspace(-3, 3, 601)
    for ax, name in zip(axes.flat, names, strict=True):
        with np.errstate(all="ignore"):
            value = np.asarray(modejump.transforms[name](x))
        ax.axhline(0.0, color=GREY, linewidth=0.5)
        ax.axvline(0.0, color=GREY, linewidth=0.5)
        ax.plot(x, np.where(np.abs(value) < 4.5, value, np.nan), color=STRONG, linewidth=1.8)
        ax.set(xlim=(-3, 3), ylim=(-3, 3), xticks=[], yticks=[])
        ax.set_title(name, fontsize=10)
        ax.spines[:].set_visible(False)
    save(figure, path)


def draw_notation(path: Path) -> None:
    """A law as a tree, with what each node costs."""
    figure, ax = plt.subplots(figsize=(8.0, 3.4), layout="constrained")
    ax.set(xlim=(0, 80), ylim=(0, 34))
    ax.axis("off")
    nodes = {
        "times": (24, 30, "·"), "A": (12, 22, "A"), "cos": (24, 22, "cos"), "exp": (38, 22, "exp"),
        "c0t": (24, 14, "·"), "c1t": (38, 14, "·"), "c0": (20, 6, "$c_0$"), "t1": (28, 6, "t"),
        "c1": (34, 6, "$c_1$"), "t2": (42, 6, "t"),
    }  # fmt: skip
    edges = "times A, times cos, times exp, cos c0t, exp c1t, c0t c0, c0t t1, c1t c1, c1t t2"
    for parent, child in (pair.split() for pair in edges.split(", ")):
        (x0, y0, _), (x1, y1, _) = nodes[parent], nodes[child]
        ax.plot([x0, x1], [y0, y1], color=WEAK, linewidth=1.4, zorder=0)
    for name, (x, y, text) in nodes.items():
        constant = name in ("c0", "c1")
        box = {"boxstyle": "round,pad=0.35", "facecolor": "white" if constant else PALE,
               "edgecolor": ACCENT if constant else DARK}  # fmt: skip
        ax.text(x, y, text, ha="center", va="center", fontsize=11, color=DARK, bbox=box)
    ax.text(50, 27, "A*cos(c0*t)*exp(c1*t)", fontsize=12, family="monospace", color=DARK, va="center")
    ax.text(50, 20, "columns and functions: symbols,\neach of which costs log n", fontsize=9.5, color=DARK, va="center")
    ax.text(50, 12, "constants: fitted to the data,\neach costs half of log n", fontsize=9.5, color=ACCENT, va="center")
    save(figure, path)


def draw_verdict(path: Path, panel: str = "chains") -> None:
    """A run that is too short beside one that is long enough; or the short one alone."""
    rng = np.random.default_rng(8)
    common = rng.normal(size=(150, 15))
    X = pd.DataFrame({f"{s}{j + 1}": common[:, j] + 0.35 * rng.normal(size=150) for j in range(15) for s in "ab"})
    y = common[:, :4] @ [1.0, 0.8, 0.6, 0.5] + rng.normal(size=150)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short = modejump.BGLMRegressor(budget=modejump.Budget(warmup=100, steps=400), random_state=1).fit(X, y)
        long = modejump.BGLMRegressor(random_state=1, progress=False).fit(X, y)
    figure, (left, right) = panels(1, 1) if panel == "chains" else panels(1.5, 1)
    plots.plot_chains(short, most=3, ax=left)
    left.set_title(f"400 steps: {short.verdict_.level}", fontsize=11)
    if panel == "chains":
        plots.plot_chains(long, most=3, ax=right)
        right.set_title(f"500 000 steps: {long.verdict_.level}", fontsize=11)
    else:
        plots.plot_agreement(short, ax=right)
    save(figure, path)


def draw_prediction(path: Path) -> None:
    """Predictions of rows that were left out, and their calibration."""
    X, y = diabetes()
    model = modejump.BGLMRegressor().fit(X[::2], y[::2])
    figure, (left, right) = panels(1.35, 1, height=4.0, width=9.5)
    plots.plot_prediction(model, X[1::2], y[1::2], ax=left)
    plots.plot_calibration(model, X[1::2], y[1::2], ax=right)
    save(figure, path)


def draw_families(path: Path) -> None:
    """What new observations look like under four families, with 90 % intervals."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 3, 150))
    mean = np.exp(0.3 + 0.7 * x)
    responses = {
        "gaussian": 1.0 + x + 0.5 * rng.normal(size=150),
        "binomial": (rng.uniform(size=150) < 1 / (1 + np.exp(3.5 - 2.4 * x))).astype(float),
        "poisson": rng.poisson(mean).astype(float),
        "gamma": rng.gamma(4.0, mean / 4.0),
    }
    figure, axes = panels(1, 1, 1, 1, height=2.7)
    grid = pd.DataFrame({"x": np.linspace(0, 3, 80)})
    for ax, (family, y) in zip(axes, responses.items()):
        if family == "binomial":
            model = modejump.BGLMClassifier().fit(pd.DataFrame({"x": x}), y)
            band = model.predict_proba(grid, interval=0.9)
        else:
            band = modejump.BGLMRegressor(family=family).fit(pd.DataFrame({"x": x}), y).predict(grid, interval=0.9)
        ax.fill_between(grid["x"], band["lower"], band["upper"], color=WEAK, alpha=0.5, linewidth=0)
        ax.plot(x, y, "o", color=STRONG, markersize=2.5, alpha=0.6, markeredgewidth=0)
        ax.plot(grid["x"], band["mean"], color=ACCENT, linewidth=1.5)
        ax.set_title(family, fontsize=10)
        ax.set_xticks([])
        tidy(ax)
    save(figure, path)


def draw_model_priors(path: Path) -> None:
    """How large models are, before there are data: ten terms under four priors."""
    priors = {
        "uniform": modejump.UniformPrior(),
        "Bernoulli 0.2": modejump.BernoulliPrior(0.2),
        "beta-binomial(1, 1)": modejump.BetaBinomialPrior(1, 1),
        "beta-binomial(1, 4)": modejump.BetaBinomialPrior(1, 4),
    }
    X, y = diabetes()
    figure, ax = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
    for colour, (name, prior) in zip(CYCLE, priors.items()):
        model = modejump.BGLMRegressor(model_prior=prior).fit(X, y)
        share = plots.models._prior_of_sizes(model.posterior_)
        ax.plot(share, "o-", color=colour, markersize=4.5, linewidth=1.2, label=name)
    ax.set(xlabel="number of terms, of ten", ylabel="prior probability", xticks=range(11))
    ax.legend(frameon=False, fontsize=9)
    tidy(ax)
    save(figure, path)


def draw_marginal_likelihoods(path: Path) -> None:
    """What two terms are worth: log marginal likelihood against R squared, 100 rows."""
    shares = np.linspace(0.0, 0.4, 81)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    figure, ax = plt.subplots(figsize=(7.0, 3.2), layout="constrained")
    for colour, name in zip(CYCLE, ("g", "jzs", "hyper-g", "aic")):
        data = modejump.BGLMRegressor(coef_prior=name).fit(frame, rng.normal(size=100)).problem_.data
        value = [log_marginal(data.coef_prior, data.n, data.base, 2, 1.0 - r2) for r2 in shares]
        ax.plot(shares, value, color=colour, linewidth=1.6, label=name)
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    ax.set(
        xlabel="R squared of a model of two terms, 100 rows", ylabel="log marginal likelihood,\nrelative to no terms"
    )
    ax.legend(frameon=False, title="prior of the coefficients")
    tidy(ax)
    save(figure, path)


def draw_sampler(path: Path) -> None:
    """A mode jump: a large change, a search, a randomisation."""
    x = np.linspace(0, 10, 500)
    height = 2.6 * np.exp(-((x - 2.3) ** 2) / 0.5) + 3.4 * np.exp(-((x - 7.4) ** 2) / 0.9) + 0.25 * np.sin(3 * x) + 0.5

    def at(where: float) -> float:
        return float(np.interp(where, x, height))

    figure, ax = plt.subplots(figsize=(8.0, 3.2), layout="constrained")
    ax.fill_between(x, 0, height, color=PALE, linewidth=0)
    ax.plot(x, height, color=WEAK, linewidth=1.6)
    for start, end, bend in ((2.3, 5.9, -0.45), (5.9, 7.35, -0.2), (7.35, 7.9, -0.6)):
        ax.annotate("", (end, at(end) + 0.06), (start, at(start) + 0.06), arrowprops={
            "arrowstyle": "-|>", "color": ACCENT, "connectionstyle": f"arc3,rad={bend}", "linewidth": 1.4})  # fmt: skip
    for where in (2.3, 5.9, 7.35, 7.9):
        ax.plot(where, at(where), "o", color=DARK, markersize=6)
    ax.text(3.9, 4.55, "large change", color=DARK, ha="center")
    ax.text(5.75, 2.0, "search", color=DARK, ha="right")
    ax.text(8.15, 4.0, "randomisation", color=DARK)
    ax.text(2.3, 0.25, "the model at present", color=GREY, ha="center", fontsize=9)
    ax.text(7.9, 0.25, "the model proposed", color=GREY, ha="center", fontsize=9)
    ax.set(xlim=(0, 10), ylim=(0, 5.2), xticks=[], yticks=[], xlabel="models", ylabel="posterior")
    tidy(ax)
    save(figure, path)


def diagram(path: Path, boxes: dict[str, tuple[float, float, str]], arrows: str, height: float = 2.6) -> None:
    """Boxes with text, and arrows between them: ``"a b"`` is one from a to b."""
    figure, ax = plt.subplots(figsize=(10.0, height), layout="constrained")
    ax.set(xlim=(0, 100), ylim=(0, 10 * height))
    ax.axis("off")
    placed = {}
    for name, (x, y, text) in boxes.items():
        style = {"boxstyle": "round,pad=0.5", "facecolor": PALE, "edgecolor": DARK}
        placed[name] = ax.text(x, y, text, ha="center", va="center", fontsize=9.5, color=DARK, bbox=style)
    for pair in arrows.split(", "):
        start, end = pair.split()
        ax.annotate("", boxes[end][:2], boxes[start][:2], arrowprops={
            "arrowstyle": "-|>", "color": LINE, "linewidth": 1.1, "patchA": placed[start].get_bbox_patch(),
            "patchB": placed[end].get_bbox_patch()})  # fmt: skip
    save(figure, path)


def draw_law_search(path: Path) -> None:
    """The phases of a search for laws."""
    boxes = {
        "a": (11, 21, "search 1"), "b": (11, 13, "search 2"), "c": (11, 5, "search 28"),
        "library": (38, 13, "library of features,\nfrozen"), "fresh": (38, 4, "fresh features,\nfrom the whole space"),
        "chain": (66, 13, "reversible chains\nsample models"), "out": (90, 13, "frequencies\nwith errors"),
    }  # fmt: skip
    diagram(path, boxes, "a library, b library, c library, library chain, fresh chain, chain out")


def draw_long_runs(path: Path) -> None:
    """A run that is killed and resumed ends as one that never was."""
    boxes = {
        "fit": (9, 19, "modejump fit\n--out run"), "one": (33, 19, "checkpoint"), "two": (53, 19, "checkpoint"),
        "kill": (73, 19, "killed"), "resume": (53, 6, "modejump\nresume run"),
        "end": (88, 6, "the same result,\nbit by bit"),
    }  # fmt: skip
    diagram(path, boxes, "fit one, one two, two kill, two resume, resume end")


def draw_large_data(path: Path) -> None:
    """Rows are read once and become sums."""
    boxes = {
        "a": (9, 21, "chunk 1"), "b": (9, 13, "chunk 2"), "c": (9, 5, "chunk 3000"),
        "sums": (36, 13, "sums of columns\nand of their products,\np × p numbers"),
        "sampler": (65, 13, "sampler: a step costs\nthe same for any\nnumber of rows"), "out": (90, 13, "posterior"),
    }  # fmt: skip
    diagram(path, boxes, "a sums, b sums, c sums, sums sampler, sampler out")


def draw_clusters(path: Path) -> None:
    """Chains are tasks; who works on them changes no answer."""
    boxes = {
        "problem": (10, 13, "problem\nand seed"), "a": (36, 21, "chain 1, its own\nrandom stream"),
        "b": (36, 13, "chain 2"), "c": (36, 5, "chain 16"),
        "workers": (65, 13, "threads, processes,\nDask or Ray"), "out": (90, 13, "one result,\nwhoever worked"),
    }  # fmt: skip
    diagram(path, boxes, "problem a, problem b, problem c, a workers, b workers, c workers, workers out")


def draw_reproducibility(path: Path) -> None:
    """What an answer is a function of."""
    boxes = {
        "data": (12, 21, "data"), "options": (12, 13, "options"), "seed": (12, 5, "random_state"),
        "answer": (45, 13, "answer,\nbit by bit"), "threads": (80, 21, "number of threads"),
        "backend": (80, 13, "threads, processes, cluster"), "stops": (80, 5, "interruptions"),
    }  # fmt: skip
    diagram(path, boxes, "data answer, options answer, seed answer")


def draw_which(path: Path) -> None:
    """Which estimator answers which question."""
    boxes = {
        "q": (11, 13, "What should\nexplain y?"), "columns": (40, 22, "some of the columns"),
        "laws": (40, 13, "a formula of them"), "logic": (40, 4, "statements about\ncolumns of 0 and 1"),
        "bglm": (80, 22, "BGLMRegressor, BGLMClassifier"), "bgnlm": (80, 13, "BGNLMRegressor, BGNLMClassifier"),
        "logicr": (80, 4, "LogicRegressor, LogicClassifier"),
    }  # fmt: skip
    diagram(path, boxes, "q columns, q laws, q logic, columns bglm, laws bgnlm, logic logicr")


def draw_reproduce(path: Path) -> None:
    """The two laws of the planets that the papers' experiments look for."""
    planets = simulate_planets(250)
    figure, (left, right) = panels(1, 1, height=3.3, width=9.0)
    laws = {
        left: (np.cbrt(planets["StarMass"] * planets["Period"] ** 2), planets["SemiMajorAxis"], "kepler: cbrt(M P²)"),
        right: (planets["Density"] * planets["Radius"] ** 3, planets["Mass"], "mass: ρ R³"),
    }
    for ax, (law, y, title) in laws.items():
        ax.plot(law, y, "o", color=STRONG, markersize=3.5, alpha=0.6, markeredgewidth=0)
        ax.set(xscale="log", yscale="log", xlabel="the law", ylabel=y.name)
        ax.set_title(title, fontsize=10)
        tidy(ax)
    save(figure, path)


PICTURES: dict[str, Callable[[Path], None]] = {
    "dataflow.svg": draw_flow,
    "kepler.png": draw_kepler,
    "start.png": draw_start,
    "selection.png": draw_selection,
    "tables.png": lambda path: from_example("plot_factors", path),
    "families.png": draw_families,
    "wide.png": lambda path: from_example("plot_wide", path),
    "law.png": lambda path: from_example("plot_oscillation", path),
    "transforms.png": draw_transforms,
    "notation.svg": draw_notation,
    "logic.png": lambda path: from_example("plot_logic", path),
    "verdict.png": draw_verdict,
    "prediction.png": draw_prediction,
    "long_runs.svg": draw_long_runs,
    "large_data.svg": draw_large_data,
    "clusters.svg": draw_clusters,
    "troubleshooting.png": lambda path: draw_verdict(path, "agreement"),
    "which.svg": draw_which,
    "model_priors.png": draw_model_priors,
    "marginal_likelihoods.png": draw_marginal_likelihoods,
    "sampler.svg": draw_sampler,
    "law_search.svg": draw_law_search,
    "frequencies.png": lambda path: from_example("plot_frequencies", path),
    "own_likelihoods.png": lambda path: from_example("plot_mixed_model", path),
    "reproducibility.svg": draw_reproducibility,
    "reproduce.png": draw_reproduce,
}


if __name__ == "__main__":
    STATIC.mkdir(exist_ok=True)
    # Letters stay letters: the file is small and its words can be searched.
    plt.rcParams["svg.fonttype"] = "none"
    plt.rcParams["svg.hashsalt"] = "modejump"
    wanted = sys.argv[1:] or [Path(name).stem for name in PICTURES]
    for name, draw in PICTURES.items():
        if Path(name).stem in wanted:
            draw(STATIC / name)
            print(f"{name}: {(STATIC / name).stat().st_size // 1024} kB", flush=True)
