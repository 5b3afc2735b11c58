"""From features to the compiled sums over a chunk of rows: what to compute once, in which order, and where it goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from modejump.data.moments import Block, Moments
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.transforms import FIRST_USER_CODE, transforms
from modejump.kernels.moments import COMBINE, LOAD, MODIFY, MULTIPLY, Groups, Program, new_sums, sum_moments

Pairs = tuple[tuple[np.ndarray, np.ndarray], ...]

# Rows that are worked on at a time: two tiles of columns stay in the first cache. Fewer would cost more in tiles than
# what is won where all columns stay in the second.
STEP = 512


class _Writer:
    """Instructions written so far; columns are given by their places."""

    def __init__(self, columns: int) -> None:
        self.columns, self.width = columns, columns
        self.lines: list[tuple[int, int, int, int, int]] = []
        self.constants: list[float] = []
        self.arguments: list[int] = []
        self.factors: list[float] = []

    def new_place(self) -> int:
        """A place for a column on the way to others."""
        self.width += 1
        return self.width - 1

    def write(
        self, kind: int, code: int, target: int, arguments: Sequence[int] = (), alpha: Sequence[float] = ()
    ) -> None:
        """One instruction; ``alpha`` is the constant and the factors of a COMBINE."""
        self.lines.append((kind, code, target, len(self.arguments), len(arguments)))
        self.constants.append(alpha[0] if len(alpha) else 0.0)
        self.arguments += arguments
        self.factors += alpha[1:] if len(alpha) else [0.0] * len(arguments)

    def program(self) -> Program:
        """All of it."""
        return Program(
            np.array(self.lines, np.int64).reshape(-1, 5), np.array(self.constants), np.array(self.arguments, np.int64),
            np.array(self.factors, np.float64), self.columns, self.width,
        )  # fmt: skip


def loads(order: Iterable[int]) -> Program:
    """The program of columns that are lines of the values.

    Parameters
    ----------
    order : iterable of int
        The lines.
    """
    lines = [int(line) for line in order]
    writer = _Writer(len(lines))
    for target, line in enumerate(lines):
        writer.write(LOAD, line, target)
    return writer.program()


def program_of(
    features: Sequence[Feature], names: Sequence[str], alphas: Mapping[Feature, np.ndarray | None]
) -> Program:
    """The program of the columns of features and, last, the response; what features share is computed once.

    Parameters
    ----------
    features : sequence of Feature
        The features, without transforms that users added.
    names : sequence of str
        Covariates: the lines of the values, before that of the response.
    alphas : mapping of Feature to ndarray or None
        Coefficients inside projections; a feature without them is not a number anywhere.
    """
    writer = _Writer(len(features) + 1)
    lines = {name: line for line, name in enumerate(names)}
    own = {f: place for place, f in enumerate(features)}
    places: dict[Feature, int] = {}
    spare: int | None = None
    for feature in features:
        for node in feature.subfeatures():
            if node in places:
                continue
            places[node] = target = own[node] if node in own else writer.new_place()
            inside = [places[child] for child in node.children]
            if node.kind == "covariate":
                assert node.name is not None
                writer.write(LOAD, lines[node.name], target)
            elif node.kind == "product":
                writer.write(MULTIPLY, 0, target, inside)
            else:
                assert node.transform is not None
                if node.kind == "projection":
                    spare = writer.new_place() if spare is None else spare
                    alpha = alphas[node]
                    numbers = [np.nan] + [0.0] * len(inside) if alpha is None else [float(a) for a in alpha]
                    writer.write(COMBINE, 0, spare, inside, numbers)
                    inside = [spare]
                writer.write(MODIFY, transforms[node.transform].code, target, inside)
    writer.write(LOAD, len(names), len(features))
    return writer.program()


def is_compiled(features: Iterable[Feature]) -> bool:
    """Whether features have no transforms but built-in ones."""
    used = {node.transform for f in features for node in f.subfeatures() if node.transform is not None}
    return all(transforms[name].code < FIRST_USER_CODE for name in used)


@dataclass(frozen=True, eq=False)
class CompiledMoments:
    """Moments of the columns of a program; travels to where the rows are.

    Attributes
    ----------
    program : Program
        What makes the columns.
    groups : tuple of pairs of ndarray
        Which products to sum; the second of a pair holds the first.
    """

    program: Program
    groups: Pairs

    def __call__(self, block: Block) -> Moments:
        """Sum over a block."""
        order = _ordered(self.groups)
        sums = new_sums(self.program, order)
        values = np.ascontiguousarray(block.values)
        if values.shape[1]:
            root = np.zeros(0) if block.weight is None else np.sqrt(block.weight)
            sum_moments(values, root, STEP, self.program, order, sums)
        cross = tuple(
            _unfolded(sums.cross[a:b], left, right)
            for a, b, (left, right) in zip(order.place[:-1], order.place[1:], self.groups, strict=True)
        )
        return Moments(float(sums.n[0]), values.shape[1], sums.mean, sums.squares, cross, self.groups)


def _rest(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Members of a group that are only on the right."""
    return right[~np.isin(right, left)]


def _ordered(groups: Pairs) -> Groups:
    """Groups as the kernel wants them: first those on the left, then the others."""
    members = [np.concatenate([left, _rest(left, right)]) for left, right in groups]
    sizes = np.array([len(m) for m in members], np.int64)
    counts = np.array([len(left) for left, _ in groups], np.int64)
    flat = np.concatenate(members).astype(np.int64) if members else np.zeros(0, np.int64)
    return Groups(flat, _ends(sizes), counts, _ends(sizes * counts))


def _ends(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _unfolded(flat: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Products of the left with the right, from those that a kernel has summed once."""
    m = len(left)
    made = flat.reshape(m, len(right))
    square = np.triu(made[:, :m]) + np.triu(made[:, :m], 1).T
    found = np.hstack([square, made[:, m:]])
    order = {int(c): i for i, c in enumerate([*left, *_rest(left, right)])}
    return np.ascontiguousarray(found[:, [order[int(c)] for c in right]])
