"""The store of models against a dictionary, and the merging of stores against its twin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import twin
from twin import close

from modejump.core.compilation import entry
from modejump.core.handles import scalars_of
from modejump.core.threads import ThreadPool
from modejump.kernels.store import ModelStore, better_half, forget, insert, new_store, probe, resize
from modejump.samplers.merge import merged_stores, renormalised_inclusion, weighted_inclusion

# --- the cache ------------------------------------------------------------------------------------------------


@entry
def put(st, key, words, value, visits):
    at = probe(st, key, words)
    if at < 0:
        at = insert(st, key, words, value)
        if at < 0:
            return at
    st.visits[at] += visits
    return at


@entry
def find(store, key, words):
    return probe(store, key, words)


def random_models(rng: np.random.Generator, count: int, words: int, distinct: int) -> list[np.ndarray]:
    pool = rng.integers(0, 2**64, size=(distinct, words), dtype=np.uint64)
    return list(pool[rng.integers(distinct, size=count)])


# One key for all models, few keys, and good keys.
KEYS: dict[str, Callable[[np.ndarray], int]] = {
    "all collide": lambda words: 5,
    "few keys": lambda words: int(words[0]) % 7,
    "good keys": lambda words: hash(words.tobytes()) % 2**64,
}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("words", [1, 2, 3])
def test_cache_behaves_like_a_dictionary(words: int, keys: str) -> None:
    rng = np.random.default_rng(50 + words)
    key_of = KEYS[keys]
    store = new_store(8, words)
    expected: dict[int, list[float]] = {}
    for model in random_models(rng, 600, words, 150):
        value, visits = float(rng.normal()), int(rng.integers(5))
        if int(store.scalars["count"]) == len(store.log_posterior):
            store = resize(store, 2 * len(store.log_posterior))
        at = put(store, np.uint64(key_of(model)), model, value, visits)
        seen = expected.setdefault(twin.mask_of(model), [value, 0])
        seen[1] += visits
        assert at == list(expected).index(twin.mask_of(model))
    assert twin.as_dict(store) == {mask: (value, visits) for mask, (value, visits) in expected.items()}
    assert list(twin.as_dict(store)) == list(expected), "in order of first evaluation"
    assert int(store.scalars["evaluated"]) == len(expected)
    stranger = np.full(words, 1, np.uint64)
    assert find(store, np.uint64(key_of(stranger)), stranger) == -1


def test_full_cache_says_so() -> None:
    store = new_store(4, 1)
    entries = [put(store, np.uint64(m), np.array([m], np.uint64), 0.0, 0) for m in range(1, 7)]
    assert entries == [0, 1, 2, 3, -1, -1]
    assert find(store, np.uint64(6), np.array([6], np.uint64)) == -1


def filled(rng: np.random.Generator, masks: list[int]) -> ModelStore:
    store = new_store(len(masks) + 3, 1)
    for mask in masks:
        # The value is a function of the model, as in the chains.
        put(store, np.uint64(mask), np.array([mask], np.uint64), math.sin(mask), int(rng.integers(1, 9)))
    return store


def test_the_worse_half_is_forgotten_and_counted() -> None:
    rng = np.random.default_rng(55)
    store = filled(rng, list(range(1, 102)))
    before = twin.as_dict(store)
    worst = int(np.argmin(store.log_posterior[:101]))
    moved = forget(store, better_half(store, worst))
    after = twin.as_dict(store)
    ranked = sorted(before, key=lambda mask: -before[mask][0])
    assert set(after) == {*ranked[:50], ranked[-1]}, "the better half and the chain's own model"
    assert all(after[mask] == before[mask] for mask in after)
    assert int(store.scalars["forgotten"]) == sum(visits for mask, (_, visits) in before.items() if mask not in after)
    for e, mask in enumerate(before):
        assert moved[e] == (list(after).index(mask) if mask in after else -1)
        words = np.array([mask], np.uint64)
        assert find(store, np.uint64(mask), words) == moved[e]
    forget(store, better_half(store, 0))
    total = sum(visits for _, visits in twin.as_dict(store).values()) + int(store.scalars["forgotten"])
    assert total == sum(visits for _, visits in before.values()), "no visit is lost however often it forgets"


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_the_better_half_of_equals_is_the_older_one(count: int) -> None:
    rng = np.random.default_rng(57)
    store = filled(rng, list(range(1, count + 1)))
    for value in (rng.integers(3, size=count).astype(float), np.full(count, -np.inf), np.zeros(count)):
        store.log_posterior[:count] = value
        best = sorted(range(count), key=lambda e: (-value[e], e))[: count // 2]
        own = count - 1
        assert np.flatnonzero(better_half(store, own)).tolist() == sorted({*best, own})


# --- models of many caches ------------------------------------------------------------------------------------


def check_merged(stores: list[ModelStore]) -> None:
    expected = twin.merge([twin.as_dict(store) for store in stores])
    found = [merged_stores(stores, ThreadPool(count)) for count in (1, 3)]
    for merged in found:
        table = merged.models
        columns = (table.log_posterior, table.visits, table.first_seen, table.chains)
        rows = zip([twin.mask_of(words) for words in table.words], *(column.tolist() for column in columns))
        assert list(rows) == expected
        assert merged.forgotten == sum(int(store.scalars["forgotten"]) for store in stores)
        weight = np.exp([value for _, value, *_ in expected]) if expected else np.zeros(0)
        inside = [[mask >> t & 1 for t in range(len(merged.inclusion))] for mask, *_ in expected]
        if expected:
            assert close(merged.inclusion, weight @ np.array(inside) / weight.sum()).all()
            assert close(merged.log_evidence, np.log(weight.sum()))
        else:
            assert merged.log_evidence == -np.inf
    assert np.array_equal(found[0].inclusion, found[1].inclusion, equal_nan=True)
    assert found[0].log_evidence == found[1].log_evidence


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("words", [1, 2, 3])
def test_caches_are_merged_as_the_twin_does(words: int, keys: str) -> None:
    rng = np.random.default_rng(56 + words)
    stores, models = [], iter(random_models(rng, 1401, words, 300))
    for count in (0, 1, 700, 700):
        store = new_store(max(count, 1), words)
        for model in itertools.islice(models, count):
            # The value is a function of the model, as in the chains; some are equal, and some minus infinity.
            value = -np.inf if model[0] % 11 == 3 else round(3 * math.sin(twin.mask_of(model) % 10_007), 2)
            put(store, np.uint64(KEYS[keys](model)), model, value, int(rng.integers(3)))
        stores.append(store)
    stores[2].scalars["forgotten"] = 11
    check_merged(stores)


def test_merging_nothing_gives_nothing() -> None:
    check_merged([new_store(4, 1)])
    check_merged([filled(np.random.default_rng(58), [5])])


def test_renormalised_inclusion_is_the_same_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(59)
    words = rng.integers(2**63, size=(100_000, 2), dtype=np.uint64) & rng.integers(2**63, size=(1, 2), dtype=np.uint64)
    value = rng.normal(size=100_000)
    scalars = scalars_of(count=len(value), evaluated=len(value), forgotten=0)
    store = ModelStore(words, value, np.zeros(0, np.int64), words[:, 0].copy(), np.zeros(0, np.int32), scalars)
    found = [renormalised_inclusion(store, 128, ThreadPool(count)) for count in (1, 3)]
    np.testing.assert_array_equal(found[0], found[1])
    weight = np.exp(value) / np.exp(value).sum()
    inside = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").reshape(-1, 128)
    np.testing.assert_allclose(found[0], weight @ inside, rtol=1e-10)
    np.testing.assert_allclose(weighted_inclusion(words, weight, 128), weight @ inside, rtol=1e-10)
