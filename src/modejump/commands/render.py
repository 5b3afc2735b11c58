"""A summary on the terminal, however narrow it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from modejump.commands.terminal import spelt
from modejump.estimators.summary import BAR, FeatureLine, ModelLine, Summary, bar

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLOURS = {"exact": "green", "good": "green", "doubtful": "yellow", "bad": "red"}
# A bar shorter than this says nothing.
_LEAST_BAR = 6
# Room that names have before bars and R-hat give way.
_NAMES = 20


def print_summary(summary: Summary, console: Console, title: str) -> None:
    """Print a page about a posterior."""
    console.rule(Text(title, style="bold"), style="dim")
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for label, value in summary.facts:
        facts.add_row(label, Text(value))
    worst = "doubtful" if summary.search == "uncertain" and summary.level in ("exact", "good") else summary.level
    facts.add_row("verdict", Text(summary.verdict_words, style=_COLOURS.get(worst, "")))
    console.print(Padding(facts, (1, 1)))
    console.print(feature_table(summary.features, console, long=bool(summary.equation)))
    if summary.more_features:
        console.print(Padding(Text(f"... and {summary.more_features} more", style="dim"), (0, 1)))
    if summary.equation:
        console.print(Padding(Text("best model, with coefficients", style="dim"), (1, 1, 0, 1)))
        console.print(Padding(Text(summary.equation, style="bold"), (0, 1, 0, 3)))
    for words in summary.constant_words:
        console.print(Padding(Text(words), (0, 1, 0, 3)))
    console.print(Padding(model_table(summary.models), (1, 0)))
    sizes = fitted(size_table(summary.sizes), console, instead=_sizes_in_words(summary.sizes))
    console.print(Padding(Group(Text(f"{summary.size_words}:"), sizes), (0, 1, 1, 1)))


def feature_table(features: Sequence[FeatureLine], console: Console, long: bool = False) -> RenderableType:
    """Inclusion probabilities with bars; names take as many lines as they need, and bars the room that is left.

    Parameters
    ----------
    features : sequence of FeatureLine
        What to list.
    console : Console
        Where it will be printed.
    long : bool
        Whether names are those of laws, which are long.
    """
    values = [spelt(f.value) if console.options.ascii_only else f.value for f in features]
    mixing = any(f.mixing for f in features)
    # Two cells of padding beside each column.
    room = console.width - max([len("probability"), *map(len, values)]) - 4
    mixing = mixing and room - 7 >= _NAMES
    room -= 7 if mixing else 0
    names = min(max([_NAMES, *(len(f.name) for f in features)]), 46 if long else 40)
    width = min(BAR // 2 if long else BAR, max(room - 2 - names, room - 2 - 2 * _NAMES))
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=True)
    table.add_column("feature", overflow="fold", max_width=46 if long else 40)
    table.add_column("probability", justify="right", no_wrap=True)
    if width >= _LEAST_BAR:
        table.add_column("", width=width, no_wrap=True)
    if mixing:
        table.add_column("R-hat", justify="right", no_wrap=True)
    for f, value in zip(features, values):
        style = "bold" if f.probability >= 0.5 else ""
        name = Text(f.name, style=style)
        if f.also:
            name.append(f"\n  {f.also}", style="dim")
        cells = [name, Text(value, style=style)]
        cells += [Text(bar(f.probability, width), style=_shade(f.probability))] if width >= _LEAST_BAR else []
        table.add_row(*cells, *([Text(f.mixing, style="dim")] if mixing else []))
    return table


def model_table(models: Sequence[ModelLine]) -> RenderableType:
    """The leading models."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=True)
    table.add_column("probability", justify="right", no_wrap=True)
    table.add_column("model, highest log posterior first", overflow="fold")
    for m in models:
        table.add_row(f"{m.probability:.4f}", Text(m.value))
    return table


def size_table(sizes: Sequence[tuple[int, float]]) -> Table:
    """The likely numbers of terms, side by side."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    for _ in sizes:
        table.add_column(justify="right", no_wrap=True)
    table.add_row("terms", *(str(size) for size, _ in sizes))
    table.add_row("probability", *(f"{share:.3f}" for _, share in sizes))
    return table


def _sizes_in_words(sizes: Sequence[tuple[int, float]]) -> Text:
    return Text(", ".join(f"{size}\N{NO-BREAK SPACE}({share:.3f})" for size, share in sizes))


def fitted(table: Table, console: Console, instead: RenderableType | None = None) -> RenderableType:
    """A table where it fits; else its rows one below the other, each cell beside its heading.

    Parameters
    ----------
    table : Table
        The table.
    console : Console
        Where it will be printed, with a margin of one column on either side.
    instead : renderable, optional
        What to print where the table does not fit, instead of its rows.
    """
    width = console.width - 2
    # Asked for its least width on a terminal without end: on a narrow one it would promise to be as narrow.
    if Measurement.get(console, console.options.update(max_width=10_000), table).minimum <= width:
        return table
    if instead is not None:
        return instead
    blocks: list[RenderableType] = []
    for cells in zip(*(list(column.cells) for column in table.columns)):
        block = Table.grid(padding=(0, 2))
        block.add_column(style="dim", overflow="fold")
        block.add_column(overflow="fold")
        for column, cell in zip(table.columns, cells):
            if str(cell):
                block.add_row(column.header, cell)
        blocks.append(Padding(block, (0, 0, 1, 0)))
    return Group(*blocks)


def _shade(probability: float) -> str:
    return "cyan" if probability >= 0.5 else "blue"
