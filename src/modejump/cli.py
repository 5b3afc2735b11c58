"""The command line. Commands import what they need when they run, so that ``--help`` is quick.

May import: everything.
"""

from __future__ import annotations

import gc
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from modejump import __version__
from modejump.commands.terminal import (
    CLOSED_PIPE,
    adapt_output,
    catch_signals,
    discard_output,
    flush_output,
    is_closed_pipe,
)
from modejump.core.errors import InputError, InterruptedRun, ModejumpWarning, printable

app = typer.Typer(
    name="modejump",
    help="Bayesian variable selection and discovery of laws, with probabilities.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

# What Typer raises for a wrong option or argument, whichever library lies beneath it.
_UsageError: Any = typer.BadParameter.__base__


def _examples(*lines: str) -> str:
    """Examples below the help of a command; Typer makes lines of paragraphs."""
    return "\n\n".join(("[bold]Examples[/bold]", *(f"$ modejump {line}" for line in lines)))


def _words(*words: str) -> Any:
    """What the shell offers for an option."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


# Groups of options in the help of a command.
_READING, _SAMPLING, _OUTPUT = "Reading the table", "Sampling", "Output"

_JOBS = typer.Option(rich_help_panel=_SAMPLING, help="Number of workers (-1: all cores).")
_BACKEND = typer.Option(
    rich_help_panel=_SAMPLING,
    help="Kind of workers: threads, loky (processes), dask or ray.",
    autocompletion=_words("threads", "loky", "dask", "ray"),
)
_SCHEDULER = typer.Option(
    rich_help_panel=_SAMPLING, metavar="ADDRESS", help="Address of a Dask or Ray cluster; this machine by default."
)
_QUIET = typer.Option("--quiet", rich_help_panel=_OUTPUT, help="Print only errors and warnings.")
_FORCE = typer.Option("--force", rich_help_panel=_OUTPUT, help="Write into a directory that is not empty.")
_SEED = typer.Option(rich_help_panel=_SAMPLING, help="Seed of the random numbers.")
_SAMPLER = typer.Option(
    rich_help_panel=_SAMPLING, help="paper: RGMJMCMC as the paper states it.", autocompletion=_words("paper")
)
_SEP = typer.Option(
    rich_help_panel=_READING,
    metavar="CHAR",
    help="What separates cells of CSV: comma by default; tab, or space for any white space.",
)
_DECIMAL = typer.Option(rich_help_panel=_READING, metavar="CHAR", help="Decimal mark of CSV.")
_ENCODING = typer.Option(
    rich_help_panel=_READING, metavar="NAME", help="Encoding of CSV: utf-8 by default; latin-1, cp1252, utf-16, ..."
)
_NA = typer.Option(rich_help_panel=_READING, metavar="A,B", help="Texts for missing values, beside NA and the like.")
_SHEET = typer.Option(rich_help_panel=_READING, metavar="NAME", help="Sheet of an Excel file; the first by default.")
_JSON = typer.Option(rich_help_panel=_OUTPUT, metavar="FILE", help="Write the answer as JSON; - for standard output.")
_PLOT = typer.Option(
    rich_help_panel=_OUTPUT,
    metavar="FILE",
    help="Draw the probabilities (.png, .svg, .pdf); of laws, the law table too.",
)

# What the library calls options, and how they are typed here.
_TYPED = {
    "random_state": "--seed", "sample_weight": "--weights", "always_in": "--always-in", "coef_prior": "--coef-prior",
    "model_prior": "--model-prior", "n_jobs": "--jobs", "missing": "--missing", "algorithm": "--algorithm",
}  # fmt: skip

BAD_INPUT = 2
INTERRUPTED = 130


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"modejump {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(
    epilog=_examples(
        "fit data.csv --target price --factors city --drop id",
        "fit data.csv --target price --transforms exp,log --out run",
        "fit daten.csv --target y --sep ';' --decimal , --encoding latin-1",
        "fit - --target y --json - < data.csv",
    )
)
def fit(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Table: CSV (- for standard input), .tsv, .xlsx, .parquet, or a directory of Parquet files; with "
            "--logic PLINK's .bed.",
        ),
    ],
    target: Annotated[
        str | None, typer.Option(help="Column of the response; for .bed a name for the phenotype in .fam.")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="Family of the response: gaussian, binomial (two classes), poisson, gamma; student, default of laws.",
            autocompletion=_words("gaussian", "binomial", "poisson", "gamma", "student"),
        ),
    ] = None,
    link: Annotated[
        str | None, typer.Option(help="Link: logit, probit or cloglog; log; log or inverse for gamma.")
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            rich_help_panel=_SAMPLING,
            help="auto, enumerate, mjmcmc; rgmjmcmc or gmjmcmc for features.",
            autocompletion=_words("auto", "enumerate", "mjmcmc", "rgmjmcmc", "gmjmcmc"),
        ),
    ] = "auto",
    coef_prior: Annotated[
        str | None, typer.Option(help="Prior of the coefficients: g, g=47, hyper-g=3, jzs, ...; jzs for laws, else g.")
    ] = None,
    model_prior: Annotated[
        str | None,
        typer.Option(
            help="Prior of the models: uniform, bernoulli=0.1, beta-binomial=1,4; of features complexity=1/n, logic."
        ),
    ] = None,
    logic: Annotated[
        bool, typer.Option("--logic", help="Search for logic features of binary columns, such as a & (b | !c).")
    ] = False,
    leaves: Annotated[int | None, typer.Option(help="Most leaves of a logic feature: 5 by default, not more.")] = None,
    genotypes: Annotated[
        bool, typer.Option("--genotypes", help="Columns are genotypes 0, 1, 2: dominant and recessive markers.")
    ] = False,
    missing: Annotated[
        str | None, typer.Option(help="Missing values: refuse; of genotypes mode, in a search for laws median.")
    ] = None,
    preselect: Annotated[
        int | None, typer.Option(metavar="N", help="Make features of N columns, those most like the target (1000).")
    ] = None,
    transforms: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Search for laws: features by these transforms, or G1, G2, or none."),
    ] = None,
    always_in: Annotated[
        str, typer.Option(metavar="A,B", help="Terms in every model; beside --logic any numbers, such as age.")
    ] = "",
    factors: Annotated[str, typer.Option(metavar="A,B", help="Columns that are factors.")] = "",
    drop: Annotated[str, typer.Option(metavar="A,B", help="Columns to leave out.")] = "",
    weights: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of case weights.")] = None,
    offset: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of offsets: known parts of the linear predictor.")
    ] = None,
    formula: Annotated[str | None, typer.Option(help="Terms by formula, such as 'y ~ a + C(f) + a:b'.")] = None,
    chains: Annotated[
        int | None, typer.Option(rich_help_panel=_SAMPLING, help="Chains: 4, or 16 in a search among features.")
    ] = None,
    steps: Annotated[int | None, typer.Option(rich_help_panel=_SAMPLING, help="Sampling steps of each chain.")] = None,
    seconds: Annotated[float | None, typer.Option(rich_help_panel=_SAMPLING, help="Sampling time.")] = None,
    mcse: Annotated[
        float | None, typer.Option(rich_help_panel=_SAMPLING, help="Wanted Monte Carlo error of the probabilities.")
    ] = None,
    jobs: Annotated[int | None, _JOBS] = None,
    backend: Annotated[str, _BACKEND] = "threads",
    scheduler: Annotated[str | None, _SCHEDULER] = None,
    seed: Annotated[int, _SEED] = 0,
    out: Annotated[
        Path | None, typer.Option(rich_help_panel=_OUTPUT, metavar="DIR", help="Directory of the run.")
    ] = None,
    checkpoint: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=_OUTPUT, metavar="SECONDS", help="Seconds between checkpoints in DIR (default 10; 0: none)."
        ),
    ] = None,
    force: Annotated[bool, _FORCE] = False,
    quiet: Annotated[bool, _QUIET] = False,
    chunked: Annotated[
        bool,
        typer.Option(
            "--chunked",
            rich_help_panel=_READING,
            help="Read Parquet in chunks, as large files are anyway; no checkpoints then.",
        ),
    ] = False,
    sampler: Annotated[str | None, _SAMPLER] = None,
    sep: Annotated[str | None, _SEP] = None,
    decimal: Annotated[str, _DECIMAL] = ".",
    encoding: Annotated[str | None, _ENCODING] = None,
    na: Annotated[str, _NA] = "",
    sheet: Annotated[str | None, _SHEET] = None,
    json: Annotated[Path | None, _JSON] = None,
    plot: Annotated[Path | None, _PLOT] = None,
) -> None:
    """Find out which columns of a table, or which laws or logic features made of them, explain the target."""
    asked = _namespace(locals(), "transforms", "always_in", "factors", "drop", "na")
    from modejump.commands.fit import run_fit

    run_fit(asked)


@app.command(epilog=_examples("resume run", "resume run --jobs 4 --json answer.json"))
def resume(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="Directory given to fit --out.")],
    jobs: Annotated[int | None, typer.Option(help="Number of workers; as before by default (-1: all cores).")] = None,
    backend: Annotated[str, _BACKEND] = "threads",
    scheduler: Annotated[str | None, _SCHEDULER] = None,
    checkpoint: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Seconds between checkpoints; as before by default.")
    ] = None,
    quiet: Annotated[bool, _QUIET] = False,
    json: Annotated[Path | None, _JSON] = None,
    plot: Annotated[Path | None, _PLOT] = None,
) -> None:
    """Resume an interrupted run; the answer is the one that it would have given."""
    asked = _namespace(locals())
    from modejump.commands.fit import run_resume

    run_resume(asked)


@app.command(
    epilog=_examples(
        "predict run new.csv",
        "predict run new.csv --interval 0.9 -o predicted.csv",
        "predict run new.xlsx --kind median --json -",
    )
)
def predict(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="Directory written by fit --out.")],
    data: Annotated[Path, typer.Argument(metavar="NEW", help="Table of new rows, as for fit; - for standard input.")],
    interval: Annotated[float | None, typer.Option(help="Level of prediction intervals, such as 0.9.")] = None,
    kind: Annotated[
        str,
        typer.Option(help="bma (average over models), best or median.", autocompletion=_words("bma", "best", "median")),
    ] = "bma",
    offset: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of offsets; that of the fit by default.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="CSV file to write.")] = None,
    sep: Annotated[str | None, _SEP] = None,
    decimal: Annotated[str, _DECIMAL] = ".",
    encoding: Annotated[str | None, _ENCODING] = None,
    na: Annotated[str, _NA] = "",
    sheet: Annotated[str | None, _SHEET] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JSON instead; - for standard output.")
    ] = None,
) -> None:
    """Predict the rows of a table by a stored run, as CSV: means, or the probabilities of classes."""
    asked = _namespace(locals(), "na")
    from modejump.commands.predict import run_predict

    run_predict(asked)


@app.command(epilog=_examples("report run --out report.html", "report run --out report.html --data test.csv"))
def report(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="Directory written by fit --out, or by save.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File to write.")] = Path("report.html"),
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Table with rows and responses to compare predictions with, best new ones."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
) -> None:
    """Write one page of HTML about a stored run; it opens in any browser and needs no network.

    It has the verdict, the probabilities, the best model as a formula, plots, and a slider for the prior of the models.
    """
    from modejump.commands.report import run_report

    run_report(run, out, data, title)


@app.command(epilog=_examples("merge run1 run2 --out both", "merge run1 run2 run3 --out all --json -"))
def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Directories written by fit --out.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Directory to store the merged run in.")],
    force: Annotated[bool, _FORCE] = False,
    quiet: Annotated[bool, _QUIET] = False,
    json: Annotated[Path | None, _JSON] = None,
    plot: Annotated[Path | None, _PLOT] = None,
) -> None:
    """Merge several runs of the same problem: models united, chains side by side."""
    from modejump.commands.merge import run_merge

    run_merge(runs, out, force, quiet, json, plot)


@app.command(epilog=_examples("transforms", "transforms --json -"))
def transforms(json: Annotated[Path | None, _JSON] = None) -> None:
    """List the functions that features are made of: names, formulas, and where they are defined."""
    from modejump.commands.list_transforms import run_transforms

    run_transforms(json)


@app.command(epilog=_examples("demo", "demo mass --plot mass.svg", "demo diabetes"))
def demo(
    name: Annotated[
        str,
        typer.Argument(
            help="Which demonstration: kepler, mass, logic or diabetes.",
            autocompletion=_words("kepler", "mass", "logic", "diabetes"),
        ),
    ] = "kepler",
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of the plot; by default NAME.png, with Matplotlib.")
    ] = None,
    json: Annotated[Path | None, _JSON] = None,
) -> None:
    """Show what modejump does: laws in simulated planets, logic in simulated data, or what matters in diabetes."""
    from modejump.commands.demo import run_demo

    run_demo(name, plot, json)


@app.command(
    epilog=_examples(
        "reproduce kepler --runs 10 --threads 4 --budget seconds=10 --jobs 4",
        "reproduce physics --laws gravity,pendulum --noise 0 --seconds 5",
        "reproduce accuracy --runs 2 --seconds 1,2 --plot accuracy.png",
    )
)
def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            help="mass, kepler, logic, physics, accuracy or classification.",
            autocompletion=_words("mass", "kepler", "logic", "physics", "accuracy", "classification"),
        ),
    ],
    protocol: Annotated[
        str | None, typer.Option(help="Priors: text (of the paper) or script (of its program).")
    ] = None,
    spelling: Annotated[str | None, typer.Option(help="Prior of mass: canonical or trees.")] = None,
    features: Annotated[str, typer.Option(metavar="A,B", help="Features of logic: bgnlm, logic.")] = "",
    algorithm: Annotated[str, typer.Option(metavar="A,B", help="rgmjmcmc, gmjmcmc; accuracy: mjmcmc too.")] = "",
    threads: Annotated[str, typer.Option(metavar="1,4,16", help="Chains merged in a run.")] = "",
    runs: Annotated[int | None, typer.Option(help="Runs of each kind: 100; physics 1, accuracy 5.")] = None,
    budget: Annotated[str | None, typer.Option(help="Of each run: paper, or seconds=S on one core.")] = None,
    seconds: Annotated[
        str, typer.Option(metavar="0.5,1,2,5", help="Times of the runs of accuracy; of physics one.")
    ] = "",
    laws: Annotated[str, typer.Option(metavar="A,B", help="Laws of physics; all by default.")] = "",
    noise: Annotated[str, typer.Option(metavar="0,0.01,0.05", help="Noise of physics, of the response's sd.")] = "",
    peers: Annotated[bool, typer.Option(help="Set pyoperon and gplearn beside ours in physics.")] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Other exoplanets (CSV), or a directory of tables.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs side by side: 1 (-1: all cores); cores of a run of physics: all.")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File of rows and runs; a later call continues from it. - for standard output."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Picture of accuracy or physics.")] = None,
    seed: Annotated[int, _SEED] = 0,
    quiet: Annotated[bool, _QUIET] = False,
    sampler: Annotated[str | None, _SAMPLER] = None,
) -> None:
    """Repeat a published experiment and set its figures beside ours, or measure errors against exact posteriors."""
    asked = _namespace(locals(), "features", "algorithm", "threads", "seconds", "laws", "noise")
    from modejump.commands.reproduce import run_reproduce

    run_reproduce(asked)


def _namespace(options: dict[str, Any], *lists: str) -> SimpleNamespace:
    """The options of a command, with texts such as "a,b" as tuples."""
    for name in lists:
        if options[name] is not None:
            options[name] = _split(options[name])
    return SimpleNamespace(**options)


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _as_typed(text: str) -> str:
    """A sentence of the library with options as they are typed in a shell."""
    for name, option in _TYPED.items():
        text = re.sub(rf"\b{name}='([^']*)'", rf"{option} \1", text)
        if "_" in name:
            # In quotes it would be the name of a column.
            text = re.sub(rf"(?<!['\w]){name}(?!['\w])", option, text)
    return text.replace("use force ", "use --force ")


def _complain(text: str) -> None:
    print(f"modejump: {printable(' '.join(text.split()))}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 2 on bad input, 128 + signal when interrupted.

    Where the reader of a pipe has gone, as ``head`` does, that is 141, and nothing is said.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.
    """
    adapt_output()
    # A first run compiles, which makes millions of small objects that live on: look for garbage less often.
    gc.set_threshold(200_000, 20, 20)
    with warnings.catch_warnings(), catch_signals() as caught:
        warnings.simplefilter("always", ModejumpWarning)
        show = warnings.showwarning

        def brief(message: Any, category: Any, *where: Any, **more: Any) -> None:
            if issubclass(category, ModejumpWarning):
                _complain(f"warning: {message}")
            else:
                show(message, category, *where, **more)

        warnings.showwarning = brief
        status = _run(argv, caught)
    if not flush_output():
        status = CLOSED_PIPE
    return 128 + caught[0] if caught and status == INTERRUPTED else status


def _run(argv: Sequence[str] | None, caught: Sequence[int]) -> int:
    status: Any
    try:
        words = sys.argv[1:] if argv is None else list(argv)
        # Commands find the words that were typed in ``context.obj``.
        status = app(args=words, prog_name="modejump", standalone_mode=False, obj=words)
    except InputError as error:
        _complain(_as_typed(str(error)))
        return BAD_INPUT
    except _UsageError as error:
        text, context = " ".join(error.format_message().split()).rstrip("."), getattr(error, "ctx", None)
        _complain(f"{text[0].lower()}{text[1:]}; see {context.command_path if context else 'modejump'} --help.")
        return BAD_INPUT
    except SystemExit as error:
        # What Rich and Typer make of a closed pipe, and how completion ends.
        if is_closed_pipe(error):
            discard_output()
            return CLOSED_PIPE
        return error.code if isinstance(error.code, int) else 0
    except BrokenPipeError:
        discard_output()
        return CLOSED_PIPE
    except OSError as error:
        _complain(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}.")
        return BAD_INPUT
    except InterruptedRun as error:
        _complain(str(error))
        return INTERRUPTED
    except (KeyboardInterrupt, typer.Abort, RuntimeError) as error:
        # An interrupt inside of Python's own locks comes out as a RuntimeError.
        if isinstance(error, RuntimeError) and not isinstance(error, typer.Abort) and not caught:
            raise
        status = INTERRUPTED
    if status == INTERRUPTED:
        _complain("interrupted.")
    return status if isinstance(status, int) else 0
