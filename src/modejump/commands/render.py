"""A summary on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from modejump.estimators.summary import BAR, FeatureLine, ModelLine, Summary, bar

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLOURS = {"exact": "green", "good": "green", "doubtful": "yellow", "bad": "red"}


def print_summary(summary: Summary, console: Console, title: str) -> None:
    """Print a page about a posterior."""
    console.rule(Text(title, style="bold"), style="dim")
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    for label, value in summary.facts:
        facts.add_row(label, Text(value))
    facts.add_row("verdict", Text(summary.verdict, style=_COLOURS.get(summary.level, "")))
    console.print(Padding(facts, (1, 1)))
    console.print(feature_table(summary.features))
    if summary.more_features:
        console.print(Padding(Text(f"... and {summary.more_features} more", style="dim"), (0, 1)))
    console.print(Padding(model_table(summary.models), (1, 0)))
    console.print(Padding(Group(Text(f"{summary.size_words}:"), size_table(summary.sizes)), (0, 1, 1, 1)))


def feature_table(features: Sequence[FeatureLine]) -> RenderableType:
    """Inclusion probabilities with bars."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=True)
    table.add_column("feature", overflow="ellipsis", max_width=40)
    table.add_column("probability", justify="right", no_wrap=True)
    table.add_column("", width=BAR, no_wrap=True)
    for f in features:
        style = "bold" if f.probability >= 0.5 else ""
        table.add_row(
            Text(f.name, style=style),
            Text(f.value, style=style),
            Text(bar(f.probability), style=_shade(f.probability)),
        )
    return table


def model_table(models: Sequence[ModelLine]) -> RenderableType:
    """The leading models."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=True)
    table.add_column("probability", justify="right", no_wrap=True)
    table.add_column("model")
    for m in models:
        table.add_row(f"{m.probability:.4f}", Text(m.value))
    return table


def size_table(sizes: Sequence[tuple[int, float]]) -> RenderableType:
    """The likely numbers of terms, side by side."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    for _ in sizes:
        table.add_column(justify="right", no_wrap=True)
    table.add_row("terms", *(str(size) for size, _ in sizes))
    table.add_row("probability", *(f"{share:.3f}" for _, share in sizes))
    return table


def _shade(probability: float) -> str:
    return "cyan" if probability >= 0.5 else "blue"
