"""Published figures of the experiments: shares over 100 runs, from the papers' tables."""

from __future__ import annotations

from typing import NamedTuple


class Figures(NamedTuple):
    """Power, mean number of false detections, false discovery rate, and power for each law where it was published."""

    power: float
    fp: float
    fdr: float
    laws: tuple[float, ...] = ()


# Logic regression was published for GMJMCMC alone; both samplers are compared with that.
_LOGIC = {32: Figures(0.90, 1.09, 0.13, (0.99, 1.00, 1.00, 0.96, 1.00, 0.99, 0.91, 0.38))}
# By experiment, and by the kind of features where the experiment has several.
_RGMJMCMC: dict[str, dict[int, Figures]] = {
    "mass": {16: Figures(0.94, 0.29, 0.18), 4: Figures(0.63, 0.64, 0.38), 1: Figures(0.29, 1.54, 0.71)},
    "kepler": {64: Figures(1.00, 0.04, 0.02), 16: Figures(0.65, 0.88, 0.39), 1: Figures(0.06, 2.14, 0.94)},
    "logic/bgnlm": {32: Figures(0.97, 1.14, 0.13, (1.00, 1.00, 0.96, 1.00, 1.00, 1.00, 0.92, 0.89))},
    "logic/logic": _LOGIC,
}
_GMJMCMC: dict[str, dict[int, Figures]] = {
    "mass": {16: Figures(0.93, 0.36, 0.22), 4: Figures(0.69, 0.49, 0.34), 1: Figures(0.42, 1.25, 0.58)},
    "kepler": {64: Figures(0.99, 0.04, 0.02), 16: Figures(0.83, 0.55, 0.22), 1: Figures(0.14, 1.81, 0.86)},
    "logic/bgnlm": {32: Figures(1.00, 0.51, 0.06, (1.00, 1.00, 1.00, 1.00, 1.00, 1.00, 0.99, 0.98))},
    "logic/logic": _LOGIC,
}
_TABLES = {"rgmjmcmc": _RGMJMCMC, "gmjmcmc": _GMJMCMC}


def published_figures(experiment: str, algorithm: str, threads: int, features: str = "") -> Figures | None:
    """What the papers report for one row of their tables; None where they report nothing.

    Examples
    --------
    >>> published_figures("mass", "rgmjmcmc", 16)
    Figures(power=0.94, fp=0.29, fdr=0.18, laws=())
    """
    row = f"{experiment}/{features}" if features else experiment
    return _TABLES.get(algorithm, {}).get(row, {}).get(threads)
