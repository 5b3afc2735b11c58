"""The plain twin of the compiled fit of the constants of laws, by least squares, and the doors to the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from modejump.core.compilation import entry
from modejump.features.language import settle_constants, write_column
from modejump.features.laws.expression import Feature, raised
from modejump.features.laws.fitting import constants as fitting
from modejump.features.laws.fitting import least_squares, starts
from modejump.features.laws.language import Laws
from modejump.features.nonlinear.transforms import transforms
from modejump.features.table import enter_nodes, new_table

SLOPES = {
    "exp": lambda u, v: v,
    "log": lambda u, v: 1.0 / u,
    "sin": lambda u, v: np.cos(u),
    "cos": lambda u, v: -np.sin(u),
    "tanh": lambda u, v: 1.0 - v * v,
}


@entry
def _write(space, table, pool, f):
    return write_column(space, table, pool, f)


@entry
def _settle(space, table, pool, f, out):
    settle_constants(space, table, pool, f, out)


class LawTable:
    """A table of laws and a pool over some data: what a chain has of them."""

    def __init__(
        self, language: Laws, columns: Mapping[str, np.ndarray], y: np.ndarray, weights: np.ndarray | None = None,
        fitting: Any = None,
    ) -> None:  # fmt: skip
        self.language, self.space, self.table = language, language.space(), new_table(4000)
        x = np.array([columns[name] for name in language.names])
        root = np.ones(len(y)) if weights is None else np.sqrt(weights)
        self.pool, self._alive = language.new_pool(x, y, root, 4000, 4, fitting)

    def number(self, feature: Feature) -> int:
        """The number of a feature, which is entered where it is new."""
        nodes: list[tuple[int, int, list[int]]] = []

        def add(f: Feature) -> int:
            kind, code, children = self.language.decompose(f)
            nodes.append((kind, code, [add(c) for c in children]))
            return len(nodes) - 1

        last = add(feature)
        numbers = np.full(len(nodes), -1, np.int64)
        children = np.array([c for *_, below in nodes for c in below], np.int64)
        kinds, codes = (np.array([node[i] for node in nodes], np.int64) for i in (0, 1))
        enter_nodes(self.space, self.table, kinds, codes, np.array([len(b) for *_, b in nodes]), children, numbers)
        return int(numbers[last])

    def column(self, feature: Feature) -> np.ndarray | None:
        """The column of a feature; None where it has none."""
        written = _write(self.space, self.table, self.pool, self.number(feature))
        return self.pool.scratch[0].copy() if written else None

    def constants(self, feature: Feature) -> np.ndarray | None:
        """The constants of a feature; None where it has none."""
        out = np.full(feature.constants, np.nan)
        _settle(self.space, self.table, self.pool, self.number(feature), out)
        return None if np.isnan(out).any() else out

    def forget(self) -> None:
        """Forget the constants that were found."""
        self.pool.memo.state[:] = fitting.UNKNOWN


class Constant(NamedTuple):
    """What a constant does in a law."""

    role: str  # "frequency", "phase", "rate" or "shift"
    inside: bool
    factor: tuple[Feature, int] | None  # a node and the number of its first constant
    total: tuple[Feature, int] | None
    alone: bool


def constants_in(feature: Feature) -> list[Constant]:
    """What each constant of a law does, in their order."""
    found: dict[int, Constant] = {}

    def walk(node: Feature, first: int, role: str, inside: bool, total: tuple[Feature, int] | None) -> None:
        if node.kind == "free":
            monomial = node.children[0]
            factor = None if monomial.kind == "one" else (monomial, first + 1)
            phase = role == "frequency" and factor is None
            found[first] = Constant("phase" if phase else role, inside, factor, total, total is None)
            walk(monomial, first + 1, "shift", False, None)
            return
        at = first
        for child in node.children:
            if node.kind == "call":
                held = {"sin": "frequency", "cos": "frequency", "log": "shift"}.get(str(node.function), "rate")
                walk(child, at, held, False, None)
            elif node.kind == "power":
                assert node.exponent is not None
                walk(child, at, "shift", node.exponent.denominator == 1 and node.exponent > 0, None)
            elif node.kind == "product":
                walk(child, at, "shift", True, None)
            else:
                walk(child, at, role, inside, (node, first) if node.kind == "sum" else None)
            at += child.constants

    walk(feature, 0, "shift", False, None)
    return [found[k] for k in range(feature.constants)]


class PlainFit:
    """Constants of one law by variable projection, in plain NumPy."""

    def __init__(self, feature: Feature, columns: Mapping[str, np.ndarray], y: np.ndarray, weights: np.ndarray) -> None:
        self.feature, self.columns, self.y, self.weights = feature, columns, y, weights
        self.held = constants_in(feature)
        root = np.sqrt(weights)
        self.root, self.base = root, root / np.linalg.norm(root)
        target = root * y
        target = target - self.base * (self.base @ target)
        self.target = target / np.linalg.norm(target)

    def at(self, rows: np.ndarray) -> PlainFit:
        """The same for some rows."""
        columns = {name: x[rows] for name, x in self.columns.items()}
        return PlainFit(self.feature, columns, self.y[rows], self.weights[rows])

    def dual(self, node: Feature, first: int, c: np.ndarray) -> tuple[Any, dict[int, Any]]:
        """Value of a node, and its derivatives by the constants below it."""
        if node.name is not None:
            return self.columns[node.name], {}
        if node.kind == "one":
            return 1.0, {}
        at, parts = first + (node.kind == "free"), []
        for child in node.children:
            parts.append(self.dual(child, at, c))
            at += child.constants
        value, slopes = parts[0]
        if node.kind == "free":
            return c[first] * value, {k: c[first] * s for k, s in slopes.items()} | {first: value + 0.0 * self.root}
        if node.kind == "minus":
            return -value, {k: -s for k, s in slopes.items()}
        if node.function is not None:
            out = transforms[node.function](value)
            by = SLOPES[node.function](value, out) if slopes else 0.0
            return out, {k: by * s for k, s in slopes.items()}
        if node.exponent is not None:
            out = raised(value, node.exponent)
            return out, {k: float(node.exponent) * out / value * s for k, s in slopes.items()}
        for other, more in parts[1:]:
            if node.kind == "sum":
                value, slopes = value + other, slopes | more
            else:
                slopes = {k: s * other for k, s in slopes.items()} | {k: s * value for k, s in more.items()}
                value = value * other
        return value, slopes

    def loss(self, c: np.ndarray) -> tuple[float, float, np.ndarray, np.ndarray, np.ndarray]:
        """Loss, slope, columns without the base, residual, and lengths of the columns before."""
        with np.errstate(all="ignore"):
            value, slopes = self.dual(self.feature, 0, c)
            u = self.root * np.array([value, *(slopes[k] for k in range(len(c)))])
            raw = (u * u).sum(axis=1)
            u = u - np.outer(u @ self.base, self.base)
            length = u[0] @ u[0]
            if not (raw[0] < np.inf and length > least_squares.CONSTANT_COLUMN**2 * raw[0]):
                return np.inf, 0.0, u, self.target, raw
            slope = (u[0] @ self.target) / length
            left = self.target - slope * u[0]
            return float(left @ left), float(slope), u, left, raw

    def minimise(self, c: np.ndarray, steps: int) -> tuple[np.ndarray, float]:
        """Levenberg and Marquardt's steps."""
        best, slope, u, left, _ = self.loss(c)
        damping, away = least_squares.FIRST_DAMPING, 0
        for _ in range(steps):
            if not best < np.inf or away == 2:
                break
            along = u[1:] @ u[0]
            h = slope**2 * (u[1:] @ u[1:].T - np.outer(along, along) / (u[0] @ u[0]))
            g = slope * (u[1:] @ left)
            done = True
            for _ in range(least_squares.ATTEMPTS):
                change = np.inf
                step = _solved(h + damping * np.diag(np.diag(h)), g)
                gain = -1.0 if step is None else float(g @ step)
                if 0.0 <= gain <= least_squares.GAIN * best:
                    break
                if step is not None and gain > 0.0:
                    trial = c + step
                    change = float(np.max(np.abs(step) / (np.abs(trial) + 1e-300)))
                    new = self.loss(trial)
                    if new[0] < best:
                        flat = new[0] > (1.0 - least_squares.FLAT) * best
                        away = away + 1 if change > least_squares.FAR and flat else 0
                        c, (best, slope, u, left, _) = trial, new
                        damping = max(0.1 * damping, 1e-15)
                        done = change < least_squares.PRECISION
                        break
                if change < least_squares.PRECISION:
                    break
                damping = max(10.0 * damping, 1e-6)
            if done:
                break
        return c, best

    def _value(self, node: tuple[Feature, int], c: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return self.dual(*node, c)[0] + 0.0 * self.root

    def candidates(self, c: np.ndarray, k: int) -> list[float]:
        """Candidates of a constant, given the others."""
        c = c.copy()
        c[k] = 0.0
        one = self.held[k]
        factor = np.ones(len(self.y)) if one.factor is None else self._value(one.factor, c)
        if one.role == "phase":
            return [0.25 * np.pi * i for i in range(4)]
        if one.role == "frequency":
            paired = not one.alone and self.phase_of(k) is None
            cycles = np.arange(starts.SLOWEST, starts.FASTEST + 1e-9, starts.CYCLES)
            waves = 2.0 * np.pi * cycles / _span(factor)
            return [float(s * w) for w in waves for s in ((1, -1) if paired else (1,))]
        if one.alone or (one.role == "rate" and one.factor is not None):
            return [s / _span(factor) for s in starts.RATES]
        assert one.total is not None
        with np.errstate(all="ignore"):
            quotient = self._value(one.total, c) / factor
        quotient = quotient[np.isfinite(quotient)]
        low, span = float(quotient.min(initial=np.inf)), _span(quotient)
        if not span > 0.0:
            return [0.0]
        inside_first = one.inside or one.role == "rate"
        shares = starts.INSIDE + starts.OUTSIDE if inside_first else starts.OUTSIDE + starts.INSIDE
        return [-(low + s * span) for s in shares]

    def phase_of(self, k: int) -> int | None:
        """The phase of a frequency."""
        total = self.held[k].total
        alike = [j for j, one in enumerate(self.held) if one.role == "phase" and total and one.total == total]
        return alike[0] if alike else None

    def find_starts(self) -> list[tuple[float, np.ndarray]]:
        """Points at which the search begins, with their losses, best first."""
        count, noted = len(self.held), []  # type: ignore[var-annotated]
        first = np.zeros(count)
        for k in reversed(range(count)):
            first[k] = self.candidates(first, k)[0]

        def note(point: np.ndarray, value: float) -> None:
            if not value < np.inf:
                return
            near = [i for i, (_, other) in enumerate(noted) if self._near(point, other)]
            if near:
                if value < noted[near[0]][0]:
                    noted[near[0]] = (value, point.copy())
            else:
                noted.append((value, point.copy()))
            noted.sort(key=lambda item: item[0])
            del noted[starts.STARTS :]

        def choose(point: np.ndarray, k: int) -> np.ndarray:
            phase = self.phase_of(k) if self.held[k].role == "frequency" else None
            best, kept = self.loss(point)[0], point.copy()
            for candidate in self.candidates(point, k):
                for turn in range(1 if phase is None else 2):
                    trial = point.copy()
                    trial[k] = candidate
                    if phase is not None:
                        trial[phase] = 0.5 * np.pi * turn
                    value = self.loss(trial)[0]
                    note(trial, value)
                    if value < best:
                        best, kept = value, trial
            return kept

        roles = [one.role for one in self.held]
        waves = [role in ("frequency", "phase") for role in roles]
        point = first.copy()
        if any(waves):
            for _ in range(1 if all(waves) else starts.ROUNDS):
                for wave in (True, False):
                    for k in reversed(range(count)):
                        if waves[k] == wave:
                            point = choose(point, k)
            return noted
        rates = [k for k, one in enumerate(self.held) if one.role == "rate" and one.factor is not None]
        leader = rates[0] if rates else count - 1
        for candidate in self.candidates(first, leader):
            point = first.copy()
            point[leader] = candidate
            if count == 1:
                note(point, self.loss(point)[0])
            for k in reversed(range(count)):
                if k != leader:
                    point = choose(point, k)
        return noted

    def _near(self, a: np.ndarray, b: np.ndarray) -> bool:
        for one, s, t in zip(self.held, a, b, strict=True):
            if one.role == "frequency" and abs(s - t) > 0.3 * (abs(s) + abs(t)):
                return False
            if one.role != "frequency" and (s < 0.0) != (t < 0.0):
                return False
        return True

    def usable(self, c: np.ndarray, screen: PlainFit) -> bool:
        """Whether no term vanishes, and all constants are identified."""
        for k, one in enumerate(screen.held):
            other = c.copy()
            other[k] = 0.0
            size = abs(c[k]) * (1.0 if one.factor is None else _span(screen._value(one.factor, other)))
            beside = 1.0 if one.total is None else _span(screen._value(one.total, other))
            if beside > 0.0 and not fitting.VANISHING * beside < size < beside / fitting.VANISHING:
                return False
        value, _, u, _, raw = self.loss(c)
        if not value < np.inf:
            return False
        lengths = np.abs(np.diag(np.linalg.qr(u.T / np.sqrt(raw))[1]))
        return bool((lengths > least_squares.IDENTIFIED).all())

    def with_signs(self, c: np.ndarray) -> np.ndarray:
        """Constants with the signs and phases of the convention."""
        c = c.copy()

        def walk(node: Feature, first: int, factor: bool) -> None:
            if node.function is not None:
                terms = node.children[0].children if node.children[0].kind == "sum" else node.children
                starts_at = first + np.cumsum([0, *(t.constants for t in terms)])
                fitted = all(t.kind == "free" and t.constants == 1 for t in terms)
                parity = transforms[node.function].parity
                if fitted and (parity > 0 or (parity < 0 and factor)) and c[first] < 0.0:
                    c[first : first + len(terms)] *= -1.0
                period = np.pi if factor else 2.0 * np.pi
                for term, k in zip(terms, starts_at, strict=False):
                    if node.function == "sin" and term.kind == "free" and term.children[0].kind == "one":
                        c[k] -= period * np.round(c[k] / period)
            at = first + (node.kind == "free")
            for child in node.children:
                walk(child, at, factor and node.kind in ("product", "power"))
                at += child.constants

        walk(self.feature, 0, True)
        return c

    def fit(self) -> np.ndarray | None:
        """The constants; None where there are none. For tables whose rows are all used."""
        screen = self.at(fitting.spread_rows(len(self.y), fitting.SCREENED))
        begun = [self.minimise(point, fitting.FIRST_STEPS) for _, point in screen.find_starts()]
        best = np.inf
        for c, value in sorted(begun, key=lambda item: item[1]):
            if value < np.inf:
                c, value = self.minimise(c, fitting.STEPS)
                if value < best:
                    best, c = value, self.with_signs(c)
                    if self.usable(c, screen):
                        return c
        return None


def _span(values: np.ndarray) -> float:
    values = values[np.isfinite(values)]
    return float(np.ptp(values)) if len(values) else 0.0


def _solved(h: np.ndarray, g: np.ndarray) -> np.ndarray | None:
    if not (np.isfinite(h).all() and (np.diag(h) > 0.0).all()):
        return None
    scale = np.sqrt(np.diag(h))
    try:
        factor = np.linalg.cholesky(h / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return None
    return np.linalg.solve(factor.T, np.linalg.solve(factor, g / scale)) / scale


def laws_over(names: Sequence[str], functions: Sequence[str] = ("exp", "log", "sin", "cos", "tanh")) -> Laws:
    """The language of laws of some columns with roots, reciprocals and some functions."""
    from modejump.features.nonlinear.space import Space

    chosen = [transforms[name] for name in ("inv", "sqrt", "cbrt", *functions)]
    return Laws(names, chosen, Space(rules="laws", depth=4, complexity=24))
