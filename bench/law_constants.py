"""Laws with two constants, fitted by least squares: ``python -m bench.law_constants [--rows 200] [--repeats 3]``.

Counts new features for each CPU second of one core, and the time to meet one again; prints one line of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time

import numpy as np

from modejump.core.compilation import entry
from modejump.core.errors import InputError
from modejump.core.handles import Handle
from modejump.features.language import settle_constants
from modejump.features.laws.expression import Feature
from modejump.features.laws.fitting.constants import UNKNOWN
from modejump.features.laws.language import Laws
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.features.table import enter_nodes, new_table

FORMS = (
    "{u}/({v} + c0*{w} + c1)", "{u}*exp(c0*{v})/({w} + c1)", "{u}*exp(c0*{v})*cos(c1*{w})",
    "{u}/sqrt(c0*{v}^2 + {w} + c1)", "exp(c0*({v} + c1)^2)*{u}", "{u}*sin(c0*{v} + c1)", "{u}/(exp(c0*{v}) + c1)",
    "{w}*log({u}/({v} + c0) + c1)", "{u}^2*exp(c0*{v} + c1*{w})", "({u} + c0)*({v} + c1)",
)  # fmt: skip
MONOMIALS = ("a", "b", "d", "e", "a*b", "d/e", "b^2", "sqrt(a)")
OF_EACH = 40


@entry
def _settle(space, table, pool, numbers, out):
    for i in range(len(numbers)):
        settle_constants(space, table, pool, numbers[i], out[i])


def features_of(form: str) -> list[Feature]:
    """Some features with two constants of one form."""
    found: dict[Feature, None] = {}
    for u, v, w in itertools.permutations(MONOMIALS, 3):
        try:
            feature = Feature.parse(form.format(u=u, v=v, w=w))
        except InputError:
            continue
        if feature.constants == 2:
            found[feature] = None
    return list(found)[:OF_EACH]


def numbers_of(language: Laws, space: Handle, table: Handle, features: list[Feature]) -> np.ndarray:
    """Enter features into a table."""
    nodes: list[tuple[int, int, list[int]]] = []

    def add(f: Feature) -> int:
        kind, code, children = language.decompose(f)
        nodes.append((kind, code, [add(c) for c in children]))  # type: ignore[arg-type]
        return len(nodes) - 1

    last = [add(f) for f in features]
    kinds, codes = (np.array([node[i] for node in nodes], np.int64) for i in (0, 1))
    children = np.array([c for *_, below in nodes for c in below], np.int64)
    numbers = np.full(len(nodes), -1, np.int64)
    enter_nodes(space, table, kinds, codes, np.array([len(below) for *_, below in nodes]), children, numbers)
    return numbers[last]


def main(arguments: list[str]) -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.law_constants")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    rng = np.random.default_rng(1)
    x = rng.uniform(0.2, 5.0, (4, given.rows))
    law = x[0] * np.exp(-0.3 * x[1]) * x[2] + x[3]
    y = law + 0.05 * law.std() * rng.normal(size=given.rows)
    chosen = [transforms[name] for name in ("inv", "sqrt", "cbrt", "exp", "log", "sin", "cos")]
    language = Laws(["a", "b", "d", "e"], chosen, Space(rules="laws", depth=4))
    pool, _alive = language.new_pool(x, y, np.ones(given.rows), 20_000, 4)
    space, table, held = Handle(language.space()), Handle(new_table(20_000)), Handle(pool)
    best = {}
    again = np.inf
    for _ in range(given.repeats):
        pool.memo.state[:] = UNKNOWN
        for form in FORMS:
            numbers = numbers_of(language, space, table, features_of(form))
            out = np.full((len(numbers), language.joint_constants), np.nan)
            _settle(space, table, held, numbers[:1], out)
            pool.memo.state[:] = UNKNOWN
            begun = time.thread_time()
            _settle(space, table, held, numbers, out)
            best[form] = min(best.get(form, np.inf), (time.thread_time() - begun) / len(numbers))
            begun = time.thread_time()
            _settle(space, table, held, numbers, out)
            again = min(again, (time.thread_time() - begun) / len(numbers))
    figures = {
        "rows": given.rows,
        "features_per_second": round(1.0 / float(np.mean(list(best.values())))),
        "microseconds_by_form": {form: round(1e6 * seconds) for form, seconds in best.items()},
        "microseconds_again": round(1e6 * again, 2),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
