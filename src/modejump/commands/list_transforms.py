"""The registry of transforms as a table."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from modejump.features.laws.powers import POWERS, SAME
from modejump.features.nonlinear.transforms import transforms


def run_transforms() -> None:
    """Print names, formulas and domains of all transforms, and what each is in a law."""
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    for heading in ("name", "formula", "defined for", "in laws"):
        table.add_column(heading, no_wrap=True)
    for name, transform in transforms.items():
        in_laws = f"x^({POWERS[name]})" if name in POWERS else f"{SAME.get(name, name)}(x)"
        table.add_row(name, transform.formula, transform.domain.text, in_laws)
    Console(markup=False, highlight=False).print(table)
