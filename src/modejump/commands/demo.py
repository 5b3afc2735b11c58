"""``modejump demo``: variable selection on scikit-learn's diabetes data, from start to finish."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from modejump.commands.render import print_summary
from modejump.errors import InputError
from modejump.estimators.bglm import BGLMRegressor
from modejump.estimators.summary import summarise

DEMOS = ("diabetes",)
_HELD_OUT = 142
_LEVEL = 0.9


def run_demo(name: str) -> None:
    """Run one demonstration."""
    if name not in DEMOS:
        raise InputError(f"the demo {name!r} is not part of this version; there is {', '.join(map(repr, DEMOS))}.")
    from sklearn.datasets import load_diabetes

    console = Console()
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    order = np.random.default_rng(1).permutation(len(X))
    test, train = np.sort(order[:_HELD_OUT]), np.sort(order[_HELD_OUT:])
    _say(
        console,
        f"Diabetes data: progression of the disease in {len(X)} patients after one year, and ten "
        f"measurements at its start. Which of them matter? All 2^10 models are weighed on {len(train)} "
        f"patients; the other {len(test)} are kept to check the predictions.",
    )
    model = BGLMRegressor(random_state=1).fit(X.iloc[train], y.iloc[train])
    print_summary(summarise(model.posterior_), console, "diabetes: which measurements matter")
    predicted = model.predict(X.iloc[test], interval=_LEVEL)
    observed = y.iloc[test].to_numpy()
    inside = ((observed >= predicted["lower"]) & (observed <= predicted["upper"])).to_numpy()
    _say(
        console,
        f"Of the {len(test)} patients kept aside, {int(inside.sum())} ({inside.mean():.0%}) fall inside "
        f"their {_LEVEL:.0%} prediction interval; R² there is "
        f"{model.score(X.iloc[test], y.iloc[test]):.2f}.",
    )
    _say(console, "The same on your own data:  modejump fit DATA.csv --target COLUMN")


def _say(console: Console, text: str) -> None:
    console.print(Padding(Text(text), (0, 1, 1, 1)))
