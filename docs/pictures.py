"""Draw the pictures of README and guide into docs/_static: ``python docs/pictures.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

import modejump
from modejump.experiments import load_exoplanets
from modejump.plots.style import GREY, STRONG, WEAK, tidy

STATIC = Path(__file__).resolve().parent / "_static"
DARK, PALE, LINE = "#22333b", "#e8eef1", "#5c7480"


def draw_kepler(path: Path) -> None:
    """Kepler's third law in the observed planets: orbits that the fit has not seen, and the laws."""
    planets = load_exoplanets()
    X, y = planets.drop(columns="SemiMajorAxisAU"), planets["SemiMajorAxisAU"]
    new = planets.index % 4 == 0
    model = modejump.BGNLMRegressor(random_state=1, progress=False).fit(X[~new], y[~new])
    predicted, observed = model.predict(X[new]), y[new]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 3.6), width_ratios=[1.0, 1.25], layout="constrained")
    ends = [0.7 * observed.min(), 1.4 * observed.max()]
    left.plot(ends, ends, color=GREY, linewidth=0.8, zorder=0)
    left.plot(predicted, observed, "o", markersize=4.5, color=STRONG, alpha=0.6, markeredgewidth=0)
    left.set(xscale="log", yscale="log", xlabel="predicted semi-major axis (au)", ylabel="observed (au)")
    left.set_title(f"{new.sum()} planets that the fit has not seen", fontsize=11)
    model = modejump.BGNLMRegressor(random_state=1, progress=False).fit(X, y)
    probability = model.inclusion_["probability"]
    laws = probability[probability > 0.01][::-1]
    names = [_short(law) for law in laws.index]
    right.barh(names, laws, height=0.55, color=[STRONG if p > 0.5 else WEAK for p in laws])
    for at, p in enumerate(laws):
        right.text(p + 0.015, at, f"{p:.2f}", va="center", color=GREY)
    right.set(xlim=(0, 1), xlabel="posterior probability")
    right.set_title("laws of the orbit, from all planets", fontsize=11)
    for ax in (left, right):
        tidy(ax)
    figure.savefig(path, dpi=110)


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
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _arrow(ax: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": LINE, "linewidth": 1.0, "shrinkA": 1})


if __name__ == "__main__":
    STATIC.mkdir(exist_ok=True)
    # Letters stay letters: the file is small and its words can be searched.
    plt.rcParams["svg.fonttype"] = "none"
    plt.rcParams["svg.hashsalt"] = "modejump"
    draw_flow(STATIC / "dataflow.svg")
    draw_kepler(STATIC / "kepler.png")
