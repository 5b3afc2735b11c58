"""
Units: no sums of apples and pears
==================================

How long does a pendulum take to swing? A search that knows the units of the columns does not add metres to kilograms,
and has far fewer formulas to look through.
"""

# %%
# **Data.** Sixty pendulums with a length, a bob of some mass, and gravity on several planets. The period is
# :math:`2\\pi\\sqrt{L/g}`, measured to three percent.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import modejump
from modejump.plots import plot_inclusion, plot_law

rng = np.random.default_rng(2)
X = pd.DataFrame(
    {"L": rng.uniform(0.2, 3, 60), "m": rng.uniform(0.1, 2, 60), "g": rng.choice([1.6, 3.7, 8.9, 9.8], 60)}
)
y = 2 * np.pi * np.sqrt(X["L"] / X["g"]) * (1 + 0.03 * rng.normal(size=60))

# %%
# **Units** are read by pint. Every feature must come out in seconds.
space = modejump.Space(units={"L": "m", "m": "kg", "g": "m/s^2"}, target_unit="s", constants=False)
model = modejump.BGNLMRegressor(space=space, budget=modejump.Budget(warmup=6_000, steps=10_000), random_state=1)
model.fit(X, y)
print(model.equation(digits=3))
print(f"2 pi = {2 * np.pi:.3f}")
print(model.inclusion_["probability"].head(3).round(3).to_dict())

# %%
# **A law that you know** can be fitted by itself, with an interval for its constant.
law = modejump.fit_law("c0*sqrt(L/g)", X, y)
print(law.constants.round(3))

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.6), layout="constrained", width_ratios=(1.2, 1))
plot_law(model, X, y, "L", at={"g": 9.8}, ax=left)
left.set(xlabel="length (m)", ylabel="period (s)")
plot_inclusion(model, ax=right)
plt.show()
