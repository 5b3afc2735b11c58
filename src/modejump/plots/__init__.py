"""Plots of fitted estimators; Matplotlib is optional and imported when a plot is drawn.

May import: everything below; NumPy, pandas and Matplotlib.
"""

from modejump.plots.genome import plot_genome
from modejump.plots.inclusion import plot_inclusion
from modejump.plots.law_table import plot_law_table
from modejump.plots.prediction import plot_prediction

__all__ = ["plot_genome", "plot_inclusion", "plot_law_table", "plot_prediction"]
