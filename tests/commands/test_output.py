"""What commands write: JSON, pictures, pages on narrow and plain terminals, closed pipes, help and completion."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer.main
from rich.console import Console

import modejump
from modejump import cli
from modejump.cli import app, main
from modejump.commands.backend import BACKENDS
from modejump.commands.demo import DEMOS
from modejump.commands.list_transforms import run_transforms
from modejump.commands.output import output_file, write_text
from modejump.commands.render import feature_table, fitted
from modejump.commands.reproduce import NAMES, _table
from modejump.commands.terminal import CLOSED_PIPE, SPELT, adapt_output, spelt
from modejump.core.errors import InputError
from modejump.estimators.summary import FeatureLine
from modejump.likelihoods import FAMILIES

LONG = "a_rather_long_name_of_a_column_that_means_something"


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(40, 3)), columns=["alpha", "beta", LONG])
    table["y"] = table["alpha"] + rng.normal(size=40)
    table["label"] = np.where(table["alpha"] > 0, "ja", "né")
    table.to_csv("data.csv", index=False)
    return tmp_path


def shell(line: str, **environment: str) -> subprocess.CompletedProcess:
    """A line of a shell where ``modejump`` is this one."""
    command = line.replace("modejump", f"{shlex.quote(sys.executable)} -m modejump")
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, env={**os.environ, "COLUMNS": "80", **environment}, timeout=300
    )


FIT = "fit data.csv --target y --drop label".split()


def test_json_of_a_fit_says_what_the_estimator_says(place, capsys):
    assert main([*FIT, "--json", "a.json", "--out", "run"]) == 0
    assert "The JSON is in a.json." in capsys.readouterr().out
    got = json.loads(Path("a.json").read_text())
    table = pd.read_csv("data.csv").drop(columns="label")
    model = modejump.BGLMRegressor().fit(table.drop(columns="y"), table["y"])
    assert got["verdict"] == str(model.verdict_) and (got["level"], got["search"]) == ("exact", "complete")
    assert got["seconds"] > 0 and got["finished"] and got["algorithm"] == "enumerate"
    assert [row["feature"] for row in got["inclusion"]] == list(model.inclusion_.index)
    for name in ("probability", "renormalised", "complexity"):
        np.testing.assert_allclose([row[name] for row in got["inclusion"]], model.inclusion_[name])
    assert [tuple(row["features"]) for row in got["models"]] == list(model.models_["features"])
    np.testing.assert_allclose([row["log_posterior"] for row in got["models"]], model.models_["log_posterior"])
    # What was never estimated is null, because JSON has no NaN.
    assert got["inclusion"][0]["r_hat"] is None and "NaN" not in Path("a.json").read_text()
    assert main(["resume", "run", "--json", "-"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["inclusion"] == got["inclusion"] and again["models"] == got["models"]


def test_json_of_other_commands(place, capsys):
    for seed in "12":
        line = [
            *FIT,
            "--algorithm",
            "mjmcmc",
            "--steps",
            "2000",
            "--chains",
            "2",
            "--seed",
            seed,
            "--out",
            f"run{seed}",
        ]
        assert main([*line, "--quiet"]) == 0
    capsys.readouterr()
    assert main("merge run1 run2 --out both --json -".split()) == 0
    merged = json.loads(capsys.readouterr().out)
    assert merged["title"] == "2 runs merged"
    inclusion = modejump.load("both").inclusion_
    assert {row["feature"]: row["probability"] for row in merged["inclusion"]} == inclusion["probability"].to_dict()
    assert main("predict both data.csv --interval 0.9 --json p.json -o p.csv".split()) == 0
    assert capsys.readouterr().out == ""
    pd.testing.assert_frame_equal(pd.DataFrame(json.loads(Path("p.json").read_text())), pd.read_csv("p.csv"))
    assert main("transforms --json -".split()) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(listed) == set(modejump.transforms)
    assert listed["p0"] == {"name": "p0", "formula": "log(x)", "defined_for": "x > 0", "in_laws": "log(x)"}
    assert main("demo diabetes --json -".split()) == 0
    assert json.loads(capsys.readouterr().out)["inclusion"][0]["feature"] == "bmi"


@pytest.mark.parametrize("ending, start", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_fit_is_drawn(place, capsys, ending, start):
    pytest.importorskip("matplotlib")
    assert main([*FIT, "--plot", f"a.{ending}"]) == 0
    assert f"The plot is in a.{ending}." in capsys.readouterr().out
    content = Path(f"a.{ending}").read_bytes()
    assert content.startswith(start) and len(content) > 2000


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="files that stand for descriptors")
def test_files_are_whole_and_devices_stay_what_they_are(place):
    write_text("one\n", Path("a.csv"))
    Path("link.csv").symlink_to("a.csv")
    write_text("two\n", Path("link.csv"))
    assert Path("a.csv").read_text() == "two\n" and Path("link.csv").is_symlink()
    with pytest.raises(ZeroDivisionError):
        with output_file(Path("a.csv")) as file:
            file.write(b"half")
            raise ZeroDivisionError
    assert Path("a.csv").read_text() == "two\n" and len(list(Path.cwd().glob("*.partial"))) == 0
    reader, writer = os.pipe()
    write_text("through a pipe\n", Path(f"/dev/fd/{writer}"))
    os.close(writer)
    with os.fdopen(reader) as end:
        assert end.read() == "through a pipe\n"
    write_text("nothing\n", Path(os.devnull))
    assert Path(os.devnull).is_char_device()


# --- terminals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("mixing", [None, 1.01])
def test_names_never_vanish_from_tables(width, mixing):
    names = ["x", LONG, "cbrt(HostStarMassSlrMass*PeriodDays^2) + sin(x)"]
    for long in (False, True):
        console = Console(file=io.StringIO(), width=width, force_terminal=False)
        lines = [FeatureLine(name, 0.9, mixing and 0.001, (), mixing) for name in names]
        console.print(feature_table(lines, console, long=long))
        out = console.file.getvalue()
        assert all(len(line) <= width for line in out.splitlines())
        first = "".join(line[: line.find("0.9000")] if "0.9000" in line else line for line in out.splitlines())
        for name in names:
            assert name.replace(" ", "") in re.sub(r"[\s─█▏▎▍▌▋▊▉]", "", first)
        assert out.count("0.9000") == 3


@pytest.mark.parametrize("width", [40, 60])
def test_pages_of_narrow_terminals_hold_everything(place, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([*FIT, "--algorithm", "mjmcmc", "--steps", "2000"]) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= width for line in out.splitlines())
    tight = "".join(out.split())
    for name in ("alpha", "beta", LONG, "verdict", "probability", "Termsinthemodel"):
        assert name in tight


def test_a_table_that_does_not_fit_is_printed_by_rows(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    run_transforms()
    out = capsys.readouterr().out
    assert all(len(line) <= 30 for line in out.splitlines())
    rows = [dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in part.splitlines() if line.strip())
            for part in re.split(r"\n\s*\n", out) if part.strip()]  # fmt: skip
    assert [row["name"] for row in rows] == list(modejump.transforms)
    assert rows[1] == {"name": "log", "formula": "log(x)", "defined for": "x > 0", "in laws": "log(x)"}
    table = _table("algorithm", "T", "runs", "power", "95 %", "FP", "FDR", "s/run")
    table.add_row("rgmjmcmc", "16", "100", "0.99 (0.93)", "0.95-1.00", "0.01 (0.03)", "0.01 (0.02)", "12.31")
    assert fitted(table, Console(width=80)) is table
    narrow = Console(file=io.StringIO(), width=40)
    narrow.print(fitted(table, narrow))
    assert "rgmjmcmc" in narrow.file.getvalue() and "12.31" in narrow.file.getvalue()


def test_plain_terminals_get_ascii_and_no_traceback(place):
    line = "modejump fit data.csv --target y --drop label --algorithm mjmcmc --steps 2000"
    done = shell(line, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    out = done.stdout.decode("ascii")
    assert " +- 0." in out and "####" in out and "\\u" not in out and "\\x" not in out
    assert all(len(text) <= 80 for text in out.splitlines())
    done = shell("modejump fit --help", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "\\u" not in done.stdout.decode("ascii")


def test_data_on_standard_output_are_never_respelt(place, monkeypatch):
    assert main("fit data.csv --target label --family binomial --drop y --out run --quiet".split()) == 0
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", plain)
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    assert main("predict run data.csv".split()) == 2
    assert "standard output is ascii and cannot hold '\\xe9'" in errors.getvalue()
    # JSON has escapes of its own.
    assert main("predict run data.csv --json -".split()) == 0
    plain.flush()
    assert {row["class"] for row in json.loads(plain.buffer.getvalue())} == {"ja", "né"}


def test_characters_of_our_own_are_spelt_and_others_escaped(monkeypatch):
    assert all(text.isascii() for text in SPELT.values())
    assert spelt("R² = 0.5 ± 0.1…") == "R^2 = 0.5 +- 0.1..."
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", plain)
    adapt_output()
    print("Größe ± 1", file=plain)
    plain.flush()
    assert plain.buffer.getvalue() == b"Gr\\xf6\\xdfe +- 1\n"


def test_colour_is_left_out_where_nobody_wants_it(place, monkeypatch, capsys):
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9]m")
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert main(FIT) == 0 and "\x1b" not in capsys.readouterr().out
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(FIT) == 0 and colour.search(capsys.readouterr().out)
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(FIT) == 0 and not colour.search(capsys.readouterr().out)


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
@pytest.mark.parametrize(
    "line", ["modejump transforms", "modejump fit --help", "modejump transforms --json -", "modejump --version"]
)
def test_a_reader_that_leaves_ends_a_command_quietly(line):
    # "true" reads nothing, and has gone before the first line is written.
    done = shell(f"({line}; echo $? >&2) | true")
    assert done.stderr.decode() == f"{CLOSED_PIPE}\n"


# --- help and completion ------------------------------------------------------------------------------------------


def commands() -> dict:
    return typer.main.get_command(app).commands


@pytest.mark.parametrize("name", sorted(commands()))
def test_help_has_examples_that_can_be_typed(name, place, capsys):
    for directory in ("run", "run1", "run2", "run3"):
        Path(directory).mkdir()
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    lines = [line.strip().removeprefix("$ modejump ") for line in out.splitlines() if line.strip().startswith("$ ")]
    assert 2 <= len(lines) <= 4 and "Examples" in out
    for line in lines:
        typed, *arguments = shlex.split(line.partition(" < ")[0])
        assert typed == name
        # Read as the command would, without doing it.
        commands()[name].make_context(name, arguments)


def test_what_the_shell_offers_is_what_there_is():
    def offered(command: str, parameter: str) -> set[str]:
        found = next(p for p in commands()[command].params if p.name == parameter)
        return {item.value for item in found.shell_complete(typer.Context(commands()[command]), "")}

    assert offered("fit", "family") == set(FAMILIES) and offered("fit", "backend") == set(BACKENDS)
    assert offered("demo", "name") == set(DEMOS) and offered("reproduce", "experiment") == set(NAMES)
    assert offered("predict", "kind") == {"bma", "best", "median"}


def test_completion_is_installed_and_answers(tmp_path, capsys):
    ask = {"_MODEJUMP_COMPLETE": "complete_bash", "COMP_WORDS": "modejump re", "COMP_CWORD": "1"}
    done = shell("modejump", **ask)
    assert done.returncode == 0 and {"resume", "reproduce"} <= set(done.stdout.decode().split())
    ask |= {"COMP_WORDS": "modejump fit --alg", "COMP_CWORD": "2"}
    assert shell("modejump", **ask).stdout.decode().split() == ["--algorithm"]
    home = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = shell("modejump --install-completion bash", **home)
    assert done.returncode == 0 and (tmp_path / ".bash_completions" / "modejump.sh").exists()
    assert "modejump.sh" in (tmp_path / ".bashrc").read_text()


def test_sentences_of_the_library_speak_the_language_of_the_shell():
    assert cli._as_typed("random_state is -1; use force to go on") == "--seed is -1; use --force to go on"
    assert cli._as_typed("choose missing='mode' to go on") == "choose --missing mode to go on"
    assert cli._as_typed("sample_weight is zero") == "--weights is zero"
    assert cli._as_typed("column 'sample_weight' is empty") == "column 'sample_weight' is empty"


def test_a_file_that_cannot_be_written_gets_a_sentence():
    with pytest.raises(InputError, match="cannot be written"):
        write_text("x", Path("absent/file"))
