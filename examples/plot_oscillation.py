"""
A damped oscillation, with the constants inside it
==================================================

A weight on a spring swings and comes to rest. Its displacement is :math:`A\\,e^{-kt}\\cos(\\omega t)`: the damping
:math:`k` and the frequency :math:`\\omega` stand inside functions, where no linear model reaches them.
"""

# %%
# **Data.** Two hundred measurements at random times, from several starting displacements ``A``, with noise of five
# percent of the standard deviation.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import modejump
from modejump.experiments import simulate_law
from modejump.plots import plot_law_table
from modejump.plots.style import ACCENT, STRONG, tidy

X, y = simulate_law("damped", noise=0.05)
print(X.assign(y=y).head(3).round(3))

# %%
# **Search.** Nothing is told about the form of the law. Features are products of powers, functions of them and of sums,
# and constants inside, which are fitted jointly for each feature that is tried.
model = modejump.BGNLMRegressor(budget=modejump.Budget(steps=20_000), random_state=1).fit(X, y)
print(model.equation(digits=3))
print(model.verdict_)

# %%
# **Constants with intervals.** ``fit_law`` takes the law that was found, or any other that you have in mind. The true
# values are -0.31 and 2.1.
law = modejump.fit_law(model.equation(numbers=False), X, y)
print(law.constants.round(3))

# %%
# **What the data say.** On the left the measurements, divided by ``A``, and the law; on the right the best law of each
# complexity, and its error on rows that are left out: below the law nothing fits, and above it nothing is gained.
t = np.linspace(0, 8, 400)
new = pd.DataFrame({"A": 2.0, "t": t})
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
left.plot(X["t"], y / X["A"], "o", markersize=4, alpha=0.5, markeredgewidth=0, color=STRONG)
left.plot(t, model.predict(new) / 2.0, color=ACCENT)
left.set(xlabel="time", ylabel="displacement / A")
tidy(left)
plot_law_table(model, ax=right)
plt.show()
