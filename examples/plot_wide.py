"""
Ten effects among 20 000 covariates
===================================

Three hundred rows, twenty thousand columns, ten of which matter. Columns lie along a line and resemble their
neighbours, as markers along a genome do, so the data may well say that there is an effect here without saying whose it
is.
"""

# %%
# **Data.** Neighbours are correlated by 0.95. The effects grow from 0.4 to 1 in units of the noise.
import matplotlib.pyplot as plt
import numpy as np

import modejump
from modejump.plots.style import ACCENT, GREY, STRONG, tidy

rng = np.random.default_rng(2)
rows, columns, link = 300, 20_000, 0.95
x = rng.standard_normal((columns, rows))
for j in range(1, columns):
    x[j] = link * x[j - 1] + np.sqrt(1.0 - link**2) * x[j]
causal = np.arange(10) * 2_000 + 1_000
effects = rng.permutation(np.linspace(0.4, 1.0, 10))
y = x[causal].T @ effects + rng.standard_normal(rows)

# %%
# **Fit.** The table has one line for each column in memory, and its transpose is what ``fit`` wants: no copy is made.
# Above 5 000 columns the estimator samples by populations of columns, and no matrix of 20 000 by 20 000 is needed.
model = modejump.BGLMRegressor(budget=modejump.Budget(steps=100_000), random_state=1)
model.fit(x.T, y)
print(model.verdict_)

# %%
# The run is short, for this page; the default is five times as long.
#
# **Credible sets.** A set holds columns that stand in for each other, and its probability is that of at least one of
# them.
sets = model.credible_sets()
print(sets[["leading", "size", "probability", "min_abs_correlation"]].round(2))

# %%
# **Truth and answer.** Above: the ten effects. Below: the inclusion probability of every column, by the mean of its
# conditional probabilities given models drawn. Rings are credible sets, at their probability and with the number of
# their columns.
probability = model.posterior_.result.rao_blackwell
fig, (top, bottom) = plt.subplots(2, 1, figsize=(9, 4.6), sharex=True, layout="constrained", height_ratios=(1, 2))
top.vlines(causal, 0.0, effects, color=ACCENT, linewidth=2)
top.set(ylabel="effect", ylim=(0.0, 1.1))
bottom.vlines(np.arange(columns), 0.0, probability, color=STRONG, linewidth=1)
bottom.plot(causal, np.full(10, -0.06), "^", color=ACCENT, ms=5, clip_on=False)
for _, found in sets.iterrows():
    places = [int(name[1:]) for name in found["covariates"]]
    middle = np.mean(places)
    bottom.plot(middle, found["probability"], "o", mfc="none", color=GREY, ms=9)
    bottom.annotate(
        str(found["size"]), (middle, found["probability"]), xytext=(0, 7), textcoords="offset points", ha="center"
    )
bottom.set(xlabel="column", ylabel="inclusion probability", ylim=(-0.1, 1.2), yticks=[0.0, 0.5, 1.0])
for ax in (top, bottom):
    tidy(ax)
plt.show()

# %%
# Where a ring stands far above the lines below it, the effect is certain and its column is not. The sets of low
# probability, away from the triangles, hold columns of noise that resemble the response by chance.
