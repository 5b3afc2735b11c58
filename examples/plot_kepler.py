"""
Discovering Kepler's third law
==============================

A simulated catalogue holds the orbit, size and mass of 200 planets, and what is known of their stars. Which function of
the other columns is the semi-major axis of an orbit? Kepler's answer of 1619 was the cube root of the star's mass times
the squared period.
"""

# %%
# The sampler knows no physics. It builds powers, products and functions of the columns, and samples models of them by
# their posterior probability.
import matplotlib.pyplot as plt

import modejump
from modejump.experiments import simulate_planets
from modejump.plots import plot_inclusion, plot_prediction

planets = simulate_planets(250)
X, y = planets.drop(columns="SemiMajorAxis"), planets["SemiMajorAxis"]
model = modejump.BGNLMRegressor(budget=modejump.Budget(steps=100_000), random_state=1).fit(X[:200], y[:200])
print(model.equation())
print(model.summary(features=5, models=3))

# %%
# Fifty planets were kept aside. Their axes span three decades, and the law predicts them to the third decimal: on
# logarithmic axes the intervals show only for the planets closest to their stars.
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
plot_prediction(model, X[200:], y[200:], log=True, ax=left)
left.set(xlabel="predicted semi-major axis (au)", ylabel="observed semi-major axis (au)")
plot_inclusion(model, most=8, ax=right)
plt.show()
