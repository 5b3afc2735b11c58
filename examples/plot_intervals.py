"""
Predict from all models, or from the best one?
==============================================

A model that was chosen by the data looks better than it is. Predictions from it are too sure, because they forget the
choice. How much does that cost where rows are few?
"""

# %%
# **Experiment.** Thirty rows, ten correlated covariates of which four have small effects, and new rows of the same
# kind. For each of sixty data sets: the error of the predictions, and how many of the new rows their 90 % intervals
# hold.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import modejump
from modejump.plots.style import ACCENT, STRONG, WEAK, tidy

kinds = {"bma": "average of all", "median": "median model", "best": "best model"}
names = [f"v{j}" for j in range(10)]
effects = np.array([0.5, 0.5, 0.4, 0.4] + [0.0] * 6)
results = []
for seed in range(60):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(0.8 * rng.normal(size=(80, 1)) + 0.6 * rng.normal(size=(80, 10)), columns=names)
    y = X.to_numpy() @ effects + rng.normal(size=80)
    model = modejump.BGLMRegressor().fit(X[:30], y[:30])
    for kind in kinds:
        predicted = model.predict(X[30:], interval=0.9, kind=kind)
        inside = (y[30:] >= predicted["lower"]) & (y[30:] <= predicted["upper"])
        results.append((kind, np.sqrt(((y[30:] - predicted["mean"]) ** 2).mean()), inside.mean()))
table = (
    pd.DataFrame(results, columns=["kind", "rmse", "coverage"]).groupby("kind").agg(["mean", "sem"]).loc[list(kinds)]
)
print(table.round(3))

# %%
# The average predicts better than either single model, and its intervals hold what they promise. Points are means
# over the data sets, whiskers two standard errors.
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.2), layout="constrained")
for ax, column, label in zip(axes, ("rmse", "coverage"), ("root mean square error", "share inside 90 % intervals")):
    mean, error = table[column, "mean"], 2 * table[column, "sem"]
    ax.hlines(list(kinds.values()), mean - error, mean + error, color=WEAK, linewidth=4.0)
    ax.plot(mean, list(kinds.values()), "o", color=STRONG, markersize=8)
    ax.set_xlabel(label)
    ax.set_ylim(2.5, -0.5)
    tidy(ax)
axes[1].axvline(0.9, color=ACCENT, linewidth=1.2, linestyle="--")
plt.show()

# %%
# The median model is those terms that are more probable in than out. Where terms stand in for each other, each may
# stay below one half, and the median model has none of them: it may then predict far worse than the average. On the
# abalone data of the benchmarks its error on new rows is 2.194, against 2.072 of the average.
