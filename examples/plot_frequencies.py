"""
Frequencies beside exact probabilities
======================================

Blur the orbits of sixty planets, and Kepler's third law is one of several that the data allow. How probable is each?
Here the space of features is small enough to evaluate every model, so the answer of the sampler can be compared with
the truth.
"""

# %%
# Four columns, one function, and models of at most two features. The axes are blurred by an error of one astronomical
# unit, so the radius or the temperature of a star may well stand in for its mass.
import matplotlib.pyplot as plt
import numpy as np

import modejump
from modejump.experiments import simulate_planets
from modejump.experiments.oracle import exact_posterior
from modejump.plots.style import GREY, STRONG, WEAK, tidy
from modejump.problem.feature_problem import feature_problem

planets = simulate_planets(60)
X = planets[["Period", "StarMass", "StarRadius", "StarTemp"]]
y = planets["SemiMajorAxis"] + np.random.default_rng(0).standard_normal(60)
space = modejump.Space(depth=3, width=3, complexity=4, size=2, population=15, rules="paper")

# %%
# **The truth.** The oracle lists all features of the space and evaluates all models made of them, by another route
# than the sampler.
problem = feature_problem(
    X.to_numpy(),
    y.to_numpy(),
    list(X.columns),
    transforms=[modejump.transforms["troot"]],
    space=space,
    coef_prior="jeffreys",
    model_prior=modejump.ComplexityPrior("1/n"),
)
features = list(problem.language.enumerate())
exact = exact_posterior(problem, features, size=space.size)
truth = exact.table()["probability"]
print(f"{len(features)} features, {len(exact.models)} models")

# %%
# **The sampler.** It knows nothing of this list. Its chains search, freeze a library of what they found, and sample;
# the share of steps with a law in the model estimates its probability.
model = modejump.BGNLMRegressor(
    coef_prior="jeffreys",
    transforms=["troot"],
    space=space,
    algorithm="rgmjmcmc",
    chains=8,
    budget=modejump.Budget(steps=400_000),
    random_state=1,
)
model.fit(X, y)
print(model.verdict_)

# %%
# **Side by side.** Error bars are 95 % intervals from the Monte Carlo standard error. On the right all laws with a
# probability of at least one in a thousand, on logarithmic scales.
found = model.inclusion_.reindex(truth.index)
frequency, error = found["probability"].fillna(0.0), 1.96 * found["mcse"].fillna(0.0)
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained", width_ratios=(1.25, 1.0))
top = truth.index[:9]
rows = np.arange(len(top))[::-1]
left.barh(rows, truth[top], height=0.6, color=WEAK, label="exact")
left.errorbar(frequency[top], rows, xerr=error[top], fmt="o", ms=4, color=STRONG, capsize=3, label="frequency")
left.set(yticks=rows, yticklabels=top, xlabel="inclusion probability", xlim=(0.0, None))
left.legend(frameon=False)

some = truth.index[truth >= 0.001]
right.axline((0.01, 0.01), (0.1, 0.1), color=GREY, linewidth=0.8)
right.errorbar(truth[some], frequency[some], yerr=error[some], fmt="o", ms=4, color=STRONG, elinewidth=1)
right.set(xscale="log", yscale="log", xlabel="exact probability", ylabel="frequency", xlim=(7e-4, 1), ylim=(7e-4, 1))
for ax in (left, right):
    tidy(ax)
plt.show()

# %%
# In units of the Monte Carlo standard error the root mean square of the differences should be about one. The error is
# the largest of several estimates and errs on the side of caution, so a little less is to be expected.
some = some[found["mcse"][some] > 0]
z = (frequency[some] - truth[some]) / found["mcse"][some]
print(f"{len(z)} laws: root mean square {np.sqrt((z**2).mean()):.2f}, largest {z.abs().max():.1f}")
