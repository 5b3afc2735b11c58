"""Options of a search by the paper's rules, for tests of what all languages share: it compiles and runs faster."""

from typing import Any

from modejump import Space


def paper(**limits: Any) -> dict[str, Any]:
    """Gaussian responses, the g-prior, and features as published, in a space with these limits."""
    return {"family": "gaussian", "coef_prior": "g", "space": Space(rules="paper", **limits)}
