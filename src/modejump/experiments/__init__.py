"""Experiments: planets, observed and simulated, logic expressions and textbook laws, and what is recovered of them.

May import: everything below plots; NumPy and pandas.
"""

from modejump.experiments.logic import simulate_logic
from modejump.experiments.physics_laws import simulate_law
from modejump.experiments.planets import load_exoplanets, simulate_planets

__all__ = ["load_exoplanets", "simulate_law", "simulate_logic", "simulate_planets"]
