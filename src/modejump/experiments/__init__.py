"""Experiments: planets, observed and simulated, and the papers' experiments on them.

May import: everything below plots; NumPy and pandas.
"""

from modejump.experiments.planets import load_exoplanets, simulate_planets

__all__ = ["load_exoplanets", "simulate_planets"]
