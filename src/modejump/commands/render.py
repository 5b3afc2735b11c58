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
    worst = "doubtful" if summary.search == "uncertain" and summary.level in ("exact", "good") else summary.level
    facts.add_row("verdict", Text(summary.verdict_words, style=_COLOURS.get(worst, "")))
    console.print(Padding(facts, (1, 1)))
    console.print(feature_table(summary.features, long=bool(summary.equation)))
    if summary.more_features:
        console.print(Padding(Text(f"... and {summary.more_features} more", style="dim"), (0, 1)))
    if summary.equation:
        console.print(Padding(Text("best model, with coefficients", style="dim"), (1, 1, 0, 1)))
        console.print(Padding(Text(summary.equation, style="bold"), (0, 1, 0, 3)))
    console.print(Padding(model_table(summary.models), (1, 0)))
    console.print(Padding(Group(Text(f"{summary.size_words}:"), size_table(summary.sizes)), (0, 1, 1, 1)))


def feature_table(features: Sequence[FeatureLine], long: bool = False) -> RenderableType:
    """Inclusion probabilities with bars; long names take half of the bars' room, and as many lines as they need."""
    width = BAR // 2 if long else BAR
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=True)
    table.add_column("feature", overflow="fold" if long else "ellipsis", max_width=46 if long else 40)
    table.add_column("probability", justify="right", no_wrap=True)
    table.add_column("", width=width, no_wrap=True)
    mixing = any(f.mixing for f in features)
    if mixing:
        table.add_column("R-hat", justify="right", no_wrap=True)
    for f in features:
        style = "bold" if f.probability >= 0.5 else ""
        name = Text(f.name, style=style)
        if f.also:
            name.append(f"\n  {f.also}", style="dim")
        table.add_row(
            name,
            Text(f.value, style=style),
            Text(bar(f.probability, width), style=_shade(f.probability)),
            *([Text(f.mixing, style="dim")] if mixing else []),
        )
    return table


def model_table(models: Sequence[ModelLine]) -> RenderableType:
    """The leading models."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=True)
    table.add_column("probability", justify="right", no_wrap=True)
    table.add_column("model, highest log posterior first")
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
