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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from modejump.core import compilation
from modejump.core.compilation import Entry
from modejump.kernels.neighbour import set_model

# In the order in which they import each other.
MODULES = [
    "kernels.store", "kernels.evaluate", "kernels.state", "kernels.neighbour", "kernels.moves", "kernels.surrogate",
    "kernels.jump", "kernels.chain", "kernels.traverse", "kernels.populations.archive",
    "kernels.populations.population", "kernels.populations.fresh_features", "kernels.populations.between",
    "kernels.populations.literal_move", "kernels.populations.coupled_move", "kernels.populations.edit_move",
    "kernels.populations.recall_move", "kernels.populations.moves",
    "kernels.populations.reversible",
]  # fmt: skip
_IMPORTED = re.compile(r"^from modejump\.([\w.]+) import", re.MULTILINE)
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
        "kernels.moves",
        (
            ("return 1, np.log((k - size) / (size + 1.0))", "return 1, 0.0"),
            ("return 1, np.log(size / (k - size + 1.0))", "return 1, 0.0"),
        ),
        "birth-death",
    ),
    Mutant(
        "partners without their ratio",
        "kernels.moves",
        (("return 2, moves.partner_ratio[i, at]", "return 2, 0.0"),),
        "partner",
    ),
    Mutant(
        "proposal ratio ignored by the acceptance",
        "kernels.chain",
        (("value - st.log_posterior + log_ratio", "value - st.log_posterior"),),
        "birth-death",
    ),
    Mutant(
        "flips that learn from the present model",
        "kernels.moves",
        (
            (
                "    flips[0] = t\n",
                "    flips[0] = t\n"
                "    if st.size > 0 and uniform(rng) < 0.5:\n"
                "        flips[0] = st.order[below(rng, st.size)]\n",
            ),
        ),
        "flip",
    ),
    Mutant(
        "log posterior not brought up to date",
        "kernels.chain",
        (("    st.log_posterior = value\n    st.entry = entry_of\n", "    st.entry = entry_of\n"),),
        "multi",
    ),
    Mutant(
        "numerator q_r(M*|chi_k) instead of q_r(M|chi_k)",
        "kernels.jump",
        (("distance(st, backward)", "distance(forward, backward)"),),
        "jump-anneal",
    ),
    Mutant(
        "rho^d instead of (rho / (1 - rho))^d",
        "kernels.jump",
        (("np.log(moves.rho / (1.0 - moves.rho))", "np.log(moves.rho)"),),
        "jump-greedy",
    ),
    Mutant(
        "stage one of delayed acceptance left out",
        "kernels.jump",
        (("accepted = accept(ch.rng, log_target)", "accepted = True"),),
        "jump-tempered",
    ),
    Mutant(
        "stage two of delayed acceptance with the target once more",
        "kernels.jump",
        (("accept(ch.rng, log_back if moves.delayed else log_target + log_back)",
          "accept(ch.rng, log_target + log_back)"),),
        "jump-tempered",
    ),
    Mutant(
        "backward search without the index set",
        "kernels.jump",
        (("search(kind, data, backward, ch, moves, m)", "search(kind, data, backward, ch, moves, 0)"),),
        "jump-greedy",
    ),
    Mutant(
        "a randomisation that never flips the last term",
        "kernels.jump",
        (("    while t < len(st.member):\n", "    while t < len(st.member) - 1:\n"),),
        "jump-anneal",
        delayed=False,
    ),
    Mutant(
        "a copy of the state that forgets its log posterior",
        "kernels.state",
        (("    copy_scalars(source, target)\n",
          "    value = target.log_posterior\n    copy_scalars(source, target)\n    target.log_posterior = value\n"),),
        "jump-greedy",
    ),
)  # fmt: skip


def load(mutant: Mutant) -> dict[str, ModuleType]:
    """Fresh modules, by name, of the mutated module and all that depend on it."""
    return load_changed(mutant.what, {mutant.module: mutant.changes})


def load_changed(
    what: str, changes: Mapping[str, Sequence[tuple[str, str]]], names: Mapping[str, Any] | None = None
) -> dict[str, ModuleType]:
    """Fresh modules, by name, of those with changes and all that depend on them; changes may use these names."""
    number = next(_numbers)
    fresh: dict[str, ModuleType] = {}
    # Nothing is kept on disk, where a function is known by its file: a mutant has none.
    uncached = ModuleType(f"mutant{number}_compilation")
    uncached.__dict__.update({**vars(compilation), "entry": compilation.kernel, "__name__": uncached.__name__})
    sys.modules[uncached.__name__] = uncached
    for name in MODULES:
        text = inspect.getsource(importlib.import_module(f"modejump.{name}"))
        if name in changes:
            for old, new in changes[name]:
                assert text.count(old) == 1, f"{name} holds {old!r} {text.count(old)} times"
                text = text.replace(old, new)
        elif not fresh.keys() & set(_IMPORTED.findall(text)):
            continue
        for other in fresh:
            text = text.replace(f"from modejump.{other} import", f"from {fresh[other].__name__} import")
        text = text.replace("from modejump.core.compilation import", f"from {uncached.__name__} import")
        module = ModuleType(f"mutant{number}_{name.replace('.', '_')}")
        module.__dict__.update(names or {})
        exec(compile(text, f"<{name} with {what}>", "exec"), module.__dict__)
        fresh[name] = sys.modules[module.__name__] = module
    return fresh


def replicator(chain_module: ModuleType, jumps: bool) -> Callable[..., Any]:
    """A compiled loop: from each start so many steps of one kernel, then the end."""
    one_step = chain_module.jump_step if jumps else chain_module.local_step

    def replicate(data, ch, moves, which, steps, starts, models, ends):
        for r in range(len(starts)):
            set_model(data, ch.state, ch.work, ch.store, models[starts[r]])
            for _ in range(steps):
                one_step(which, data, ch, moves)
            ends[r] = np.int64(ch.state.words[0])

    return Entry(replicate, keep=False)
