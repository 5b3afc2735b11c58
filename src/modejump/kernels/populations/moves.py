"""The moves between populations, by name.

All of them start from the model alone. What a move draws (populations, searches) enters its ratio only as the theory
says; see "Why the frequencies are right" in the documentation. A move is a kernel of a `FeatureChain` and of the row of
``Between.tried`` that belongs to it, and tells whether the model changed.
"""

from __future__ import annotations

from typing import Any

from modejump.core.compilation import kernel, switch
from modejump.core.handles import note_outside
from modejump.kernels.populations.between import MOVED, PROPOSED, Between
from modejump.kernels.populations.coupled_move import coupled_move
from modejump.kernels.populations.edit_move import edit_move
from modejump.kernels.populations.literal_move import delayed_move, literal_move, small_move
from modejump.kernels.populations.recall_move import recall_move


@kernel
def _no_move(fc, tried):
    return False


POPULATION_MOVES: dict[str, Any] = {
    "none": _no_move,
    "literal": literal_move,
    "delayed": delayed_move,
    "small": small_move,
    "coupled": coupled_move,
    "edit": edit_move,
    "recall": recall_move,
}
NONE = 0


def add_population_move(name: str, move: Any) -> None:
    """Add a move between populations, for `Sampler` to give a weight.

    Parameters
    ----------
    name : str
        What it is called.
    move : kernel
        Takes the chain and the move's counts, and returns whether the model changed.
    """
    POPULATION_MOVES[name] = move
    note_outside(Between, move.py_func)


@kernel
def _unknown_move(kind, fc, tried):
    return False


_one_of_them = switch("fc, tried", lambda: dict(enumerate(POPULATION_MOVES.values())), _unknown_move)


@kernel
def move_between(kind, fc):
    """One move between populations; True where the model changed."""
    tried = fc.between.tried[kind]
    tried[PROPOSED] += 1
    moved = _one_of_them(kind, fc, tried)
    tried[MOVED] += moved
    return moved
