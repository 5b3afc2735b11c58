"""The real kernels with one thing broken on purpose, to show that the tests of exactness would notice.

A mutant is the source of the kernel modules with a text replaced, executed as fresh modules: the changed module and
every one that imports it, directly or not. Their imports of each other lead to the fresh ones; the rest is real.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numba import njit

from modejump.core.compilation import kernel
from modejump.core.handles import handle
from modejump.kernels.neighbour import set_model

# In the order in which they import each other.
MODULES = {
    "rng": "modejump.core.random",
    **{
        name: f"modejump.kernels.{name}"
        for name in ("store", "evaluate", "state", "neighbour", "moves", "surrogate", "jump", "chain", "traverse")
    },
    "archive": "modejump.kernels.populations.archive",
    "population": "modejump.kernels.populations.population",
    "fresh": "modejump.features.fresh",
    "guests": "modejump.kernels.populations.fresh_features",
    "population_moves": "modejump.kernels.populations.moves",
    "reversible": "modejump.kernels.populations.reversible",
}
_IMPORTED = re.compile(r"^from (modejump[\w.]+) import", re.MULTILINE)
_numbers = itertools.count()


@dataclass(frozen=True)
class Mutant:
    """What is broken, in which module, by which replacements, and the kernel that shows it."""

    what: str
    module: str
    changes: tuple[tuple[str, str], ...]
    kernel: str
    delayed: bool = True


MUTANTS = (
    Mutant(
        "birth and death without their ratio",
        "moves",
        (
            ("return 1, np.log((k - size) / (size + 1.0))", "return 1, 0.0"),
            ("return 1, np.log(size / (k - size + 1.0))", "return 1, 0.0"),
        ),
        "birth-death",
    ),
    Mutant(
        "partners without their ratio",
        "moves",
        (("return 2, moves.partner_ratio[i, at]", "return 2, 0.0"),),
        "partner",
    ),
    Mutant(
        "proposal ratio ignored by the acceptance",
        "chain",
        (("value - st.val[LOG_POSTERIOR] + log_ratio", "value - st.val[LOG_POSTERIOR]"),),
        "birth-death",
    ),
    Mutant(
        "flips that learn from the present model",
        "moves",
        (
            (
                "flips[0] = draw_alias(rng, moves.threshold, moves.alias)",
                "flips[0] = draw_alias(rng, moves.threshold, moves.alias)\n"
                "        if st.num[SIZE] > 0 and uniform(rng) < 0.5:\n"
                "            flips[0] = st.order[below(rng, st.num[SIZE])]",
            ),
        ),
        "flip",
    ),
    Mutant(
        "log posterior not brought up to date",
        "chain",
        (("    st.val[LOG_POSTERIOR] = value\n    st.num[ENTRY] = entry_of\n", "    st.num[ENTRY] = entry_of\n"),),
        "multi",
    ),
    Mutant(
        "numerator q_r(M*|chi_k) instead of q_r(M|chi_k)",
        "jump",
        (("distance(st, backward)", "distance(forward, backward)"),),
        "jump-anneal",
    ),
    Mutant(
        "rho^d instead of (rho / (1 - rho))^d",
        "jump",
        (("np.log(moves.rho / (1.0 - moves.rho))", "np.log(moves.rho)"),),
        "jump-greedy",
    ),
    Mutant(
        "stage one of delayed acceptance left out",
        "jump",
        (("accepted = accept(rng, log_target)", "accepted = True"),),
        "jump-tempered",
    ),
    Mutant(
        "stage two of delayed acceptance with the target once more",
        "jump",
        (("accept(rng, log_back if moves.delayed else log_target + log_back)", "accept(rng, log_target + log_back)"),),
        "jump-tempered",
    ),
    Mutant(
        "backward search without the index set",
        "jump",
        (
            (
                "jump_and_search(kind, data, backward, work, store, moves, rng, locked, index_set, m, flips)",
                "jump_and_search(kind, data, backward, work, store, moves, rng, locked, index_set, 0, flips)",
            ),
        ),
        "jump-greedy",
    ),
    Mutant(
        "a randomisation that never flips the last term",
        "jump",
        (("    while t < k:\n", "    while t < k - 1:\n"),),
        "jump-anneal",
        delayed=False,
    ),
    Mutant(
        "a copy of the state that forgets its values",
        "state",
        (("    _copy(source.val, target.val)\n", ""),),
        "jump-greedy",
    ),
)


def _source(name: str) -> str:
    return inspect.getsource(importlib.import_module(MODULES[name]))


def load(mutant: Mutant) -> dict[str, ModuleType]:
    """Fresh modules, by name, of the mutated module and all that depend on it."""
    return load_changed(mutant.what, {mutant.module: mutant.changes})


def load_changed(what: str, changes: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, ModuleType]:
    """Fresh modules, by name, of those with changes and all that depend on them."""
    number = next(_numbers)
    fresh: dict[str, ModuleType] = {}
    jit = ModuleType(f"mutant{number}_jit")
    # Nothing is cached: the cache knows a function by its file, and a mutant has none.
    jit.kernel = jit.entry = kernel  # type: ignore[attr-defined]
    sys.modules[jit.__name__] = jit
    for name in MODULES:
        text = _source(name)
        if name in changes:
            for old, new in changes[name]:
                assert text.count(old) == 1, f"{name} holds {old!r} {text.count(old)} times"
                text = text.replace(old, new)
        elif not {MODULES[other] for other in fresh} & set(_IMPORTED.findall(text)):
            continue
        for other in fresh:
            text = text.replace(f"from {MODULES[other]} import", f"from {fresh[other].__name__} import")
        text = text.replace("from modejump.core.compilation import", f"from {jit.__name__} import")
        module = ModuleType(f"mutant{number}_{name}")
        exec(compile(text, f"<{name} with {what}>", "exec"), module.__dict__)
        fresh[name] = sys.modules[module.__name__] = module
    return fresh


def replicator(chain_module: ModuleType, jumps: bool):
    """A compiled loop: from each start so many steps of one kernel, then the end."""
    one_step = chain_module.jump_step if jumps else chain_module.local_step

    @njit(nogil=True, error_model="numpy")
    def replicate(problem_data, chain, settings, which, steps, starts, models, ends):
        data, ch, moves = handle(problem_data), handle(chain), handle(settings)
        for r in range(len(starts)):
            set_model(data, ch.state, ch.work, ch.store, models[starts[r]])
            for _ in range(steps):
                one_step(which, data, ch, moves)
            ends[r] = np.int64(ch.state.words[0])

    return replicate
