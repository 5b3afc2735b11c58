"""Laws in compiled tables are what the plain constructors, grammar and edits make of them."""

from __future__ import annotations

from functools import cache

import law_twin as lt
import numpy as np
import pytest
from feature_twin import edit_draws, edit_probabilities, language_draws, log_probabilities, stream_of

from modejump.features.distribution import FeatureDistribution
from modejump.features.laws.expression import Feature
from modejump.features.laws.language import Laws
from modejump.features.laws.powers import LAW_TRANSFORMS
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms
from modejump.features.table import FeatureTable, new_table

NONE = np.zeros(0)
NO_TABLE = FeatureDistribution(
    share=0.0, listed=NONE.astype(np.int64), threshold=NONE, alias=NONE.astype(np.int64), probability=NONE
)


def language_of(names: str = "bca", functions: tuple[str, ...] = LAW_TRANSFORMS, **limits: object) -> Laws:
    return Laws(names, [transforms[name] for name in functions], Space(**limits))  # type: ignore[arg-type]


@cache
def drawn() -> tuple[Laws, FeatureTable, list[int]]:
    """A large space, and features drawn from it."""
    language, table, out = language_of(), new_table(1 << 18), np.empty(20_000, np.int64)
    language_draws(language.space(), table, stream_of(1), out)
    return language, table, sorted(set(out[out >= 0].tolist()))


@pytest.mark.parametrize("seed", range(40))
def test_constructors_agree(seed: int) -> None:
    language, table, most = language_of(width=12, complexity=40), new_table(1 << 14), 20
    steps, plain = lt.random_steps(np.random.default_rng(seed), language, 250, most)
    made = np.full(len(steps), -1, np.int64)
    lt.build(language.space(), table, steps, most, made)
    assert sum(f is not None for f in plain) > 40
    for row, f, number in zip(steps.tolist(), plain, made.tolist(), strict=True):
        parts = [plain[i] for i in row[2:]]
        assert (f is None) == (number < 0), (lt.STEPS[row[0]], row, parts, f)
        assert f is None or lt.feature_of(language, table, number) is f


def test_measures_texts_and_round_trips() -> None:
    language, table, numbers = drawn()
    for number in numbers:
        f = lt.feature_of(language, table, number)
        assert language.contains(f) and language.parse(f.text) is f
        measured = tuple(int(a[number]) for a in (table.complexity, table.depth, table.width, table.constants))
        assert measured == (f.complexity, f.depth, f.width, f.constants)
        assert int(table.nodes[number]) == _tree_size(f)
    other = new_table(1 << 18)
    features = [lt.feature_of(language, table, number) for number in numbers]
    entered = lt.enter(language, other, features[::-1])[::-1]
    assert (other.key[entered] == table.key[numbers]).all()
    assert all(lt.feature_of(language, other, int(e)) is f for e, f in zip(entered, features, strict=True))


def test_probabilities_agree() -> None:
    language, table, numbers = drawn()
    own, total = np.empty(len(numbers)), np.empty(len(numbers))
    log_probabilities(NO_TABLE, language.space(), table, np.array(numbers), own, total)
    plain = [lt.probability(language, lt.feature_of(language, table, number)) for number in numbers]
    np.testing.assert_allclose(own, np.log(plain), rtol=1e-12)


@pytest.mark.parametrize(
    "limits", [{"constants": 1, "complexity": 4, "depth": 2, "width": 3}, {"constants": False, "complexity": 4}]
)
def test_edits_agree(limits: dict[str, int]) -> None:
    language, table = language_of("ba", ("inv", "exp", "cos"), **limits), new_table(1 << 16)
    features = language.enumerate()
    numbers = lt.enter(language, table, features)
    law = np.empty((len(numbers), len(numbers)))
    edit_probabilities(language.space(), table, numbers, law)
    plain = np.zeros_like(law)
    place = {f: i for i, f in enumerate(features)}
    for f in features:
        for g, p in lt.edit_law(language, f).items():
            plain[place[f], place[g]] = p
    np.testing.assert_allclose(law, plain, atol=1e-12)
    # Most edits can be undone by one, and from every feature each other can be reached there and back.
    both = (law > 0) & (law.T > 0)
    assert both.sum() > 0.8 * (law > 0).sum()
    reached = np.eye(len(law), dtype=bool)
    for _ in range(12):
        reached = reached | (reached.astype(np.float32) @ both.astype(np.float32) > 0)
    assert reached.all()


def test_edits_of_large_features_agree() -> None:
    language, table, numbers = drawn()
    large = [number for number in numbers if table.complexity[number] > 8 and table.constants[number] > 0][:12]
    assert len(large) == 12
    for number in large:
        law = lt.edit_law(language, lt.feature_of(language, table, number))
        out = np.empty(20_000, np.int64)
        edit_draws(language.space(), table, number, stream_of(number), out)
        found = {lt.feature_of(language, table, f) for f in set(out[out >= 0].tolist())}
        assert found <= law.keys()
        total = sum(law.values())
        assert abs((out >= 0).mean() - total) < 5 * np.sqrt(total * (1 - total) / len(out))


def test_functions_of_features_are_told() -> None:
    language, table, numbers = drawn()
    out = np.empty(len(numbers), np.int64)
    lt.list_functions(language.space(), table, np.array(numbers), out)
    assert out.tolist() == [lt.functions_in(language, lt.feature_of(language, table, f)) for f in numbers]
    assert len(set(out.tolist())) > 16


def test_operators_make_features() -> None:
    language, table, numbers = drawn()
    space, members = language.space(), np.array(numbers[:400])
    for operator, name in enumerate(language.operators):
        out = np.empty(3_000, np.int64)
        lt.make_features(space, table, operator, members, stream_of(operator), out)
        made = {lt.feature_of(language, table, f) for f in set(out[out >= 0].tolist())}
        assert len(made) > 5, name
        # Exponents are fitted, too.
        assert name != "projection" or sum(f.text.endswith("^c0") for f in made) > 5
        for f in made:
            assert f.is_monomial and language.parse(f.text) is f


def _tree_size(f: Feature) -> int:
    return 1 + sum(map(_tree_size, f.children))
