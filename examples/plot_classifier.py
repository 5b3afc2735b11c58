"""
A classifier that knows how sure it is
======================================

Ten measurements of cells, 569 tumours, two classes. Which measurements tell malignant from benign, and can one rely on
the probabilities that are predicted?
"""

# %%
# **Data.** The means of ten measurements. Every other tumour is kept aside.
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import modejump
from modejump.plots import plot_calibration, plot_inclusion

data = load_breast_cancer(as_frame=True)
X = data.data[[name for name in data.data if name.startswith("mean ")]]
X = X.rename(columns=lambda name: name.removeprefix("mean "))
y = data.target.map({0: "malignant", 1: "benign"}).to_numpy()

# %%
# **Fit.** Ten measurements make 1024 logistic models, all of which are evaluated.
model = modejump.BGLMClassifier().fit(X[::2], y[::2])
print(model.verdict_)
print(f"right in {model.score(X[1::2], y[1::2]):.1%} of the tumours kept aside")

# %%
# **Which measurements, and how reliable?** On the right, tumours kept aside in ten groups by their predicted
# probability. The bars behind the points are where chance puts 95 % of calibrated predictions.
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.0), layout="constrained", width_ratios=(1.3, 1))
plot_inclusion(model, ax=left)
plot_calibration(model, X[1::2], y[1::2], ax=right)
plt.show()

# %%
# **One patient.** The probability has an interval: it says how well the data determine the probability itself.
some = X[1::2].iloc[[3, 6, 9]]
print(model.predict_proba(some, interval=0.9).round(3))
