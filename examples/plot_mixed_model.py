"""
A likelihood of your own: selection in a mixed model
====================================================

Pupils sit in classes, and the pupils of one class resemble each other. A linear model that does not know takes forty
pupils of one class for forty independent witnesses, and finds effects of what only differs between classes. A random
intercept for each class mends that. The library has no mixed models; this example adds one as a Numba function, which
the compiled engine calls for each model.
"""

# %%
# **The model.** With a random intercept for each class, relative to the residual variance of variance :math:`\tau`,
#
# .. math:: y \sim N(\alpha 1 + X\beta,\ \sigma^2 V), \qquad V = I + \tau Z Z^T,
#
# where Z tells who is in which class. Take flat priors for the intercept and for :math:`\log\sigma^2`, and for
# :math:`\beta` the g-prior with g = n in the metric of :math:`V^{-1}`. Given :math:`\tau` everything is Gaussian, and
#
# .. math::
#
#    \log p(y \mid M, \tau) = -\tfrac12 \log|V| - \tfrac12 \log(1^T V^{-1} 1) - \tfrac{k}{2}\log(1 + g)
#    - \tfrac{n-1}{2} \log\frac{S_0 + g S_1}{1 + g} + \log\Gamma\left(\tfrac{n-1}{2}\right) - \tfrac{n-1}{2} \log\pi
#
# with :math:`S_0, S_1` the weighted residual sums of squares of the intercept alone and of the model. The rest is a
# sum over a grid of the share :math:`\rho = \tau / (1 + \tau)` of the variance that lies between classes, with equal
# prior weights. For groups, :math:`V^{-1} = I - Z\,\mathrm{diag}(\tau / (1 + \tau n_j)) Z^T`: nothing of size
# n by n is needed, only sums over the classes.
import math

import matplotlib.pyplot as plt
import numpy as np
from numba import njit

from modejump.likelihoods.custom.own import OwnLikelihood
from modejump.plots.style import STRONG, WEAK, tidy
from modejump.problem.problem import Problem
from modejump.samplers.plan import Plan
from modejump.samplers.sample import sample


# [begin likelihood]
@njit(error_model="numpy")
def sweep(a):
    """From products of (1, columns, y): log of 1'1, and what is left of y'y after the 1, and after all columns."""
    m = len(a)
    log_ones, s0 = math.log(a[0, 0]), a[m - 1, m - 1] - a[m - 1, 0] ** 2 / a[0, 0]
    for i in range(m - 1):
        for j in range(i + 1, m):
            a[j] -= a[i] * (a[j, i] / a[i, i])
    return log_ones, s0, a[m - 1, m - 1]


@njit(error_model="numpy")
def random_intercept(y, X, weights, params):
    """Log marginal likelihood of a linear model with a random intercept; params holds the class of each row."""
    n, m = X.shape
    if np.any(weights != 1.0):
        raise ValueError("this likelihood takes no weights")
    if len(params) != n or params.min() < 0.0:
        raise ValueError("params has a class for each row, counted from 0")
    classes = int(params.max()) + 1
    count = np.zeros(classes)
    table = np.empty((n, m + 1))
    table[:, :m], table[:, m] = X, y
    sums = np.zeros((classes, m + 1))
    for i in range(n):
        count[int(params[i])] += 1.0
        sums[int(params[i])] += table[i]
    products = table.T @ table

    g, k, grid = float(n), m - 1, 20
    values = np.empty(grid)
    for r in range(grid):
        rho = (r + 0.5) / grid
        tau = rho / (1.0 - rho)
        a = products.copy()
        log_det = 0.0
        for c in range(classes):
            log_det += math.log1p(tau * count[c])
            for i in range(m + 1):
                a[i] -= tau / (1.0 + tau * count[c]) * sums[c, i] * sums[c]
        log_ones, s0, s1 = sweep(a)
        rss = (s0 + g * s1) / (1.0 + g)
        values[r] = -0.5 * (log_det + log_ones + k * math.log1p(g) + (n - 1) * math.log(rss))
    top = values.max()
    constant = math.lgamma(0.5 * (n - 1)) - 0.5 * (n - 1) * math.log(math.pi)
    return top + math.log(np.exp(values - top).mean()) + constant


# [end likelihood]


# %%
# **Data.** Thirty classes of eight pupils. Hours of study, of sleep, and of walking differ between pupils; the age of
# the teacher, the size of the school, and three more facts are the same for a whole class. Only study matters.
classes, pupils = 30, 8
group = np.repeat(np.arange(classes), pupils)
names = ["study", "sleep", "walk", "teacher", "school", "floor", "windows", "morning"]
terms = {name: [j] for j, name in enumerate(names)}


def simulate(seed):
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.standard_normal((len(group), 3)), rng.standard_normal((classes, 5))[group]])
    return X, 0.4 * X[:, 0] + 1.2 * rng.standard_normal(classes)[group] + rng.standard_normal(len(group))


# %%
# **Two posteriors.** The same terms and model prior, once with the usual Gaussian likelihood and g-prior, once with the
# function above. The engine enumerates all 256 models either way.
likelihood = OwnLikelihood(random_intercept, params=group)


def inclusion(seed):
    X, y = simulate(seed)
    plain = sample(Problem.build(X, y, terms=terms, coef_prior="g"), Plan("enumerate"))
    mixed = sample(Problem.build(X, y, terms=terms, family=likelihood), Plan("enumerate"))
    return plain.renormalised, mixed.renormalised


for title, probabilities in zip(("independent pupils", "random intercept"), inclusion(0)):
    print(f"{title:<20}", dict(zip(names, probabilities.round(2).tolist())))

# %%
# **Forty data sets.** How often is a covariate more likely in than out? Facts about the class pass for effects where
# the likelihood takes pupils for independent, and seldom where it does not.
found = np.mean([np.array(inclusion(seed)) > 0.5 for seed in range(40)], axis=0)
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
places = np.arange(len(names))
ax.bar(places - 0.2, found[0], width=0.4, label="independent pupils", color=WEAK)
ax.bar(places + 0.2, found[1], width=0.4, label="random intercept", color=STRONG)
ax.set_xticks(places, names)
ax.set_ylabel("share of data sets with\nprobability above one half")
ax.legend(frameon=False)
tidy(ax)
plt.show()
