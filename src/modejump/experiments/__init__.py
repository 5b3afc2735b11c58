"""Experiments: planets, observed and simulated, simulated logic expressions, and the papers' experiments on them.

May import: everything below plots; NumPy and pandas.
"""

from modejump.experiments.logic import simulate_logic
from modejump.experiments.planets import load_exoplanets, simulate_planets

__all__ = ["load_exoplanets", "simulate_logic", "simulate_planets"]
