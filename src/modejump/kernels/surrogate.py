"""The surrogate of generalised linear models: what one Newton step from a fixed fit says about any model.

The log likelihood is replaced by its quadratic expansion at the fit of one reference model. A model's maximum under
it comes from a weighted Gram matrix, by the algebra of Gaussian responses and at a cost that does not depend on the
number of rows. It is a function of the model alone, so that it can serve as the first stage of delayed acceptance.
"""

from __future__ import annotations

from modejump.core.compilation import generic, implements, kernel, switch
from modejump.kernels.evaluate import NEG_INF, factorise
from modejump.kernels.neighbour import eliminate, prior_now, tableau
from modejump.kernels.state import column_count, gather, leaving_first, toggle
from modejump.likelihoods.columns import Conjugate
from modejump.likelihoods.custom.own import CustomRows
from modejump.likelihoods.glm.newton import Glm
from modejump.priors.coefficients import COEF_PRIORS, EBLocal

# The surrogate's log posterior counts this much: it errs, and the first stage should not refuse what the second takes.
CAUTION = 0.7


_empirical_bayes = EBLocal.log_laplace


@kernel
def _best_g(code, par, n, base, k, log_likelihood, log_det_base, wald):
    """Mixtures of g-priors want an integral; the best g is near enough for a surrogate."""
    return _empirical_bayes(par, n, base, k, log_likelihood, log_det_base, wald)


_laplace = switch("par, n, base, k, log_likelihood, log_det_base, wald", COEF_PRIORS.cases("log_laplace"), _best_g)


@kernel
def _value(data, st, k, resid, total):
    """Log of the surrogate's posterior: prior and Laplace approximation with the quadratic's likelihood and Wald."""
    prior = prior_now(data, st)
    if prior == NEG_INF:
        return NEG_INF
    wald = total * max(1.0 - resid, 0.0)
    return prior + _laplace(data.coef_prior.code, data.coef_prior.par, data.n, data.base, k, 0.5 * wald, 0.0, wald)


@kernel
def _canonical(data, st, work):
    """Residual share of the model in the set representations; one where its columns are dependent."""
    k = gather(data, st, work)
    if k < 0:
        st.overflow = 1
        return 1.0
    resid = factorise(data.gram, data.corr, work.sorted_cols, k, work.chol, work.solved)
    return resid if resid > -0.5 else 1.0


@kernel
def _flipped_resid(data, st, work, flips, m):
    """Residual share of the neighbour from the state's inverse, or -1.0 where it cannot be trusted."""
    if not st.ready or st.ill:
        return -1.0
    b = 0
    for i in range(m):
        for c in range(data.first[flips[i]], data.first[flips[i] + 1]):
            work.flip_cols[b] = c
            b += 1
    tableau(data, st, work, b)
    return eliminate(st, work, b)


@generic
def surrogate_gain(glm, data, st, work, flips, m, total):
    """Tempered difference of the surrogate's log posterior to the model that differs from the state's in these terms.

    The state is left as it was. Only generalised linear models have a surrogate.
    """


@implements(surrogate_gain, Conjugate)
@implements(surrogate_gain, CustomRows)
def _no_surrogate(glm, data, st, work, flips, m, total):
    return 0.0


@implements(surrogate_gain, Glm)
def _gain(glm, data, st, work, flips, m, total):
    leaving_first(st, flips, m)
    trusted = st.ready and not st.ill
    k = column_count(data, st)
    here = _value(data, st, k, st.resid if trusted else _canonical(data, st, work), total)
    resid = _flipped_resid(data, st, work, flips, m)
    for i in range(m):
        toggle(data, st, flips[i])
    k = column_count(data, st)
    there = NEG_INF
    if k <= data.max_cols:
        there = _value(data, st, k, resid if resid > 0.0 else _canonical(data, st, work), total)
    for i in range(m - 1, -1, -1):
        toggle(data, st, flips[i])
    return CAUTION * (there - here)
