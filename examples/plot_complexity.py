"""
How complex a law do the data support?
======================================

A longer formula always fits better. When is it worth it? The table of laws has the best law of each complexity, its
probability, and its error on rows that were left out.
"""

# %%
# **Data.** The rate of an enzyme (Michaelis and Menten, 1913): it grows with the concentration S and saturates,
# :math:`v = V S / (S + K)`. Two percent of noise, then thirty.
import matplotlib.pyplot as plt

import modejump
from modejump.experiments import simulate_law
from modejump.plots import plot_law_table

fits = {}
for noise in (0.02, 0.3):
    X, y = simulate_law("enzyme", noise=noise)
    model = modejump.BGNLMRegressor(
        budget=modejump.Budget(warmup=20_000, steps=20_000), random_state=1, transforms=("inv", "sqrt", "exp"), chains=8
    )
    fits[noise] = model.fit(X, y)
    print(f"noise {noise:.0%}: {model.equation(digits=3)}")
    print(model.law_table()[["complexity", "law", "probability", "error"]].head(6).round(3), "\n")

# %%
# **Little noise:** below the law nothing fits, above it nothing is gained. **Much noise:** ``V*exp(-1/S)`` saturates
# as the true law does and has no constant to pay for. On new rows it is as good as longer laws (filled points), and
# the data cannot tell that it is not the one. The dotted line is the law of highest log posterior.
fig, axes = plt.subplots(1, 2, figsize=(11.5, 3.9), layout="constrained")
for ax, (noise, model) in zip(axes, fits.items()):
    plot_law_table(model, ax=ax)
    ax.set_xlabel(f"complexity, noise {noise:.0%}")
plt.show()
