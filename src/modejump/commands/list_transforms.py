"""The registry of transforms as a table."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from modejump.commands.output import check_json, write_json
from modejump.commands.render import fitted
from modejump.features.laws.powers import POWERS, SAME
from modejump.features.nonlinear.transforms import transforms


def run_transforms(json: Path | None = None) -> None:
    """Print names, formulas and domains of all transforms, and what each is in a law.

    Parameters
    ----------
    json : path, optional
        File to write them to as JSON instead; ``-`` for standard output.
    """
    check_json(json)
    rows = [
        {
            "name": name,
            "formula": transform.formula,
            "defined for": transform.domain.text,
            "in laws": f"x^({POWERS[name]})" if name in POWERS else f"{SAME.get(name, name)}(x)",
        }
        for name, transform in transforms.items()
    ]
    if json is not None:
        write_json([{key.replace(" ", "_"): text for key, text in row.items()} for row in rows], json)
        return
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    for heading in rows[0]:
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(*row.values())
    console = Console(markup=False, highlight=False)
    console.print(fitted(table, console))
