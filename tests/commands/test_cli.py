"""The command line: fit, predict, demo, version; quick help; output that fits a terminal of 80 columns."""

import io
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import modejump
from modejump.cli import main
from modejump.core import progress


def run(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "modejump", *arguments], capture_output=True, text=True, **options)


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(11)
    rows = 50
    table = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["alpha", "beta", "gamma"])
    table["cyl"] = rng.choice([4, 6, 8], rows)
    table["site"] = rng.choice(["north", "south"], rows)
    table["y"] = table["alpha"] + 0.5 * table["cyl"] + rng.normal(size=rows)
    table["w"] = 1
    table.to_csv("data.csv", index=False)
    table.sample(frac=1.0, axis=1, random_state=1).head(7).to_csv("new.csv", index=False)
    return tmp_path


def test_fit_prints_a_page_of_80_columns(files, capsys):
    assert main(["fit", "data.csv", "--target", "y", "--factors", "site,cyl", "--drop", "w"]) == 0
    out, err = capsys.readouterr()
    # A first fit on a machine compiles, and may say so.
    assert err in ("", "modejump: compiling, once for this machine\n")
    assert all(len(line) <= 80 for line in out.splitlines())
    for words in ("y in data.csv", "50 rows", "exact", "alpha", "probability", "Terms in the model"):
        assert words in " ".join(out.split())


def test_fit_store_and_predict_agree_with_python(files, capsys):
    assert main("fit data.csv --target y --factors site,cyl --weights w --coef-prior jzs --out run".split()) == 0
    assert "stored in run" in capsys.readouterr().out
    kept = {"run.json", "run-1.npz", "inclusion.csv", "models.csv", "job.json", "log.txt"}
    assert {p.name for p in Path("run").iterdir()} == kept
    assert main("predict run new.csv --interval 0.9 -o out.csv".split()) == 0
    got = pd.read_csv("out.csv")
    data, new = pd.read_csv("data.csv"), pd.read_csv("new.csv")
    for table in (data, new):
        table["site"] = pd.Categorical(table["site"], categories=["north", "south"])
        table["cyl"] = pd.Categorical(table["cyl"], categories=[4, 6, 8])
    columns = ["alpha", "beta", "gamma", "cyl", "site"]
    model = modejump.BGLMRegressor(coef_prior="jzs").fit(data[columns], data["y"])
    pd.testing.assert_frame_equal(got, model.predict(new[columns], interval=0.9), rtol=1e-9)
    assert main("predict run new.csv --kind best".split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mean" and len(lines) == 8
    np.testing.assert_allclose([float(v) for v in lines[1:]], model.predict(new[columns], kind="best"))


def test_a_full_directory_is_overwritten_only_by_force(files, capsys):
    line = ["fit", "data.csv", "--target", "y", "--drop", "site,w", "--out", "run", "--quiet"]
    assert main(line) == 0
    assert main(line) == 2
    assert "use --force to write into it" in capsys.readouterr().err
    assert main([*line, "--force"]) == 0


def test_quiet_prints_nothing(files, capsys):
    assert main(["fit", "data.csv", "--target", "y", "--drop", "site,w", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "formula", [["--formula", "y ~ alpha + C(cyl)"], ["--formula", "alpha + C(cyl)", "--target", "y"]]
)
def test_fit_by_formula_stores_a_run_that_predicts(files, capsys, formula):
    assert main(["fit", "data.csv", *formula, "--out", "run"]) == 0
    assert "C(cyl)" in capsys.readouterr().out
    assert main(["predict", "run", "new.csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    model = modejump.BGLMRegressor().fit_formula("y ~ alpha + C(cyl)", pd.read_csv("data.csv"))
    np.testing.assert_allclose([float(v) for v in lines[1:]], model.predict(pd.read_csv("new.csv")))


def test_priors_with_parameters_are_honoured(files, capsys):
    line = "fit data.csv --target y --drop site,w --coef-prior hyper-g=3.5 --model-prior beta-binomial=1,4"
    assert main([*line.split(), "--always-in", "beta"]) == 0
    out = capsys.readouterr().out
    assert "a = 3.5" in out and "b = 4" in out and "intercept, beta" in out


def test_sampling_is_repeated_by_its_seed(files, capsys):
    line = "fit data.csv --target y --drop site,w --algorithm mjmcmc --steps 2000 --chains 2 --jobs 2"
    tables = []
    for name, seed in (("one", "5"), ("two", "5"), ("three", "6")):
        assert main([*line.split(), "--out", name, "--seed", seed]) == 0
        tables.append(Path(name, "inclusion.csv").read_text())
    assert tables[0] == tables[1] != tables[2]
    out = capsys.readouterr().out
    assert "MJMCMC, 2 chains" in out


def test_warnings_are_one_line(files, capsys):
    pd.read_csv("data.csv").assign(flat=1.0).to_csv("flat.csv", index=True)
    assert main(["fit", "flat.csv", "--target", "y", "--drop", "site,w"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all(line.startswith("modejump: warning: ") for line in lines)
    assert "row labels" in lines[0] and "'flat'" in lines[1]


def test_the_diabetes_demo_shows_probabilities_and_coverage(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo", "diabetes"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and all(len(line) <= 80 for line in out.splitlines())
    for words in ("bmi", "exact", "prediction interval", "modejump fit"):
        assert words in " ".join(out.split())


@pytest.mark.parametrize(
    "arguments, law, plot",
    [
        ([], "cbrt(StarMass*Period^2)", "kepler.png"),
        (["mass", "--plot", "here.svg"], "Density*Radius^3", "here.svg"),
    ],
)
def test_a_demo_discovers_its_law_and_draws_it_where_it_is_asked_to(
    arguments, law, plot, tmp_path, capsys, monkeypatch
):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == "" and all(len(line) <= 80 for line in out.splitlines())
    # The verdict names the law too; its row in the table has the probability beside it.
    assert f" {law} 1.0000 " in " ".join(out.split())
    for words in ("The law found:", "Hidden in the data was", "prediction interval", plot, "modejump fit"):
        assert words in " ".join(out.split())
    assert (tmp_path / plot).read_bytes().startswith(b"\x89PNG" if plot.endswith(".png") else b"<?xml")
    assert [path.name for path in tmp_path.iterdir()] == [plot]


def test_the_logic_demo_finds_every_term(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo", "logic"]) == 0
    out, err = capsys.readouterr()
    assert err.count("warning") == err.count("\n") and all(len(line) <= 80 for line in out.splitlines())
    words = " ".join(out.split())
    for law in ("X7", "X8", "X2 & X9", "X18 & X21", "X1 & X3 & X27", "X12 & X20 & X37", "X4 & X10 & X17 & X30",
                "X11 & X13 & X19 & X50"):  # fmt: skip
        assert re.search(rf" {law} (1\.0000|0\.99..) ± ", words), law
    for part in ("Hidden in the data were", "prediction interval", "modejump reproduce logic"):
        assert part in words


def test_plots_that_no_demo_draws_are_refused(capsys):
    pytest.importorskip("matplotlib")
    for arguments in (["kepler", "--plot", "here.nonsense"], ["diabetes", "--plot", "here.png"]):
        assert main(["demo", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["crime", "nonsense"])
def test_demos_there_are_not_are_refused(name, capsys):
    assert main(["demo", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_fit_searches_for_laws_and_its_run_predicts(files, capsys):
    table = pd.read_csv("data.csv")[["alpha", "beta", "gamma"]]
    table.assign(y=2.0 + np.sin(table["alpha"]) * table["beta"]).to_csv("law.csv", index=False)
    line = "fit law.csv --target y --transforms sin,troot --coef-prior jeffreys --steps 9000"
    assert main([*line.split(), "--chains", "4", "--out", "run"]) == 0
    out, err = capsys.readouterr()
    # Where nothing is compiled yet, that takes long enough for lines of progress.
    assert all(words.startswith("modejump: ") and "warning" not in words for words in err.splitlines())
    assert all(len(line) <= 80 for line in out.splitlines())
    for words in ("beta*sin(alpha)", "RGMJMCMC, 4 chains", "complexity (a = 1/n", "y = 2 + beta*sin(alpha)"):
        assert words in " ".join(out.split())
    assert main("predict run new.csv --interval 0.9".split()) == 0
    lines = capsys.readouterr().out.splitlines()
    new = pd.read_csv("new.csv")
    assert lines[0] == "mean,lower,upper"
    got = [float(row.split(",")[0]) for row in lines[1:]]
    np.testing.assert_allclose(got, 2.0 + np.sin(new["alpha"]) * new["beta"], rtol=1e-6)


@pytest.mark.parametrize(
    "switch, algorithm",
    [
        ("--algorithm gmjmcmc", "GMJMCMC"),
        ("--algorithm rgmjmcmc", "RGMJMCMC"),
        ("--model-prior complexity=n^-2", "RGMJMCMC"),
        ("--transforms sin --algorithm gmjmcmc", "GMJMCMC"),
    ],
)
def test_other_ways_to_ask_for_a_search(files, capsys, switch, algorithm):
    assert main(["fit", "data.csv", "--target", "y", "--drop", "site,w", "--steps", "3000", *switch.split()]) == 0
    out = capsys.readouterr().out
    assert f" {algorithm}, 16 chains" in out and ("n^-2" in out) == ("complexity=n^-2" in switch)


def test_laws_can_be_sampled_to_a_precision(files, capsys):
    line = "fit data.csv --target y --drop site,w --transforms sin --chains 2 --mcse 0.05"
    assert main(line.split()) == 0
    assert "RGMJMCMC, 2 chains" in capsys.readouterr().out


def test_the_algorithm_can_be_that_of_the_paper(files, capsys):
    line = "fit data.csv --target y --drop site,w --transforms sin --steps 3000 --chains 2 --seed 4 --quiet"
    assert main([*line.split(), "--out", "ours"]) == 0
    assert main([*line.split(), "--out", "paper", "--sampler", "paper"]) == 0
    ours, paper = (pd.read_csv(Path(name, "inclusion.csv"))["probability"] for name in ("ours", "paper"))
    assert not ours.equals(paper)
    table = pd.read_csv("data.csv").drop(columns=["site", "w"])
    options = {"chains": 2, "budget": modejump.Budget(steps=3000), "random_state": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", modejump.ModejumpWarning)
        model = modejump.BGNLMRegressor(transforms=("sin",), sampler="paper", **options).fit(
            table.drop(columns="y"), table["y"]
        )
    np.testing.assert_allclose(model.inclusion_["probability"], paper)
    assert modejump.load("paper").get_params()["sampler"] == modejump.Sampler.paper()


def test_experiments_need_no_data_and_take_the_algorithm_of_the_paper(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    line = "reproduce {} --runs 1 --threads 1 --budget seconds=1 --algorithm rgmjmcmc"
    assert main(line.format("mass").split()) == 0
    assert "mass: detections above" in capsys.readouterr().out
    assert main([*line.format("kepler").split(), "--sampler", "paper"]) == 0
    out = capsys.readouterr().out
    assert "kepler: detections above" in out and "sampler paper" in " ".join(out.split())
    assert main([*line.format("kepler").split(), "--sampler", "pape"]) == 2


@pytest.mark.parametrize(
    "line, words",
    [
        ("--transforms sin --factors cyl", "--factors"),
        ("--transforms sin --drop site --always-in delta", "--always-in names 'delta', which is not a term"),
        ("--transforms sin --drop site --missing mode", "missing must be one of 'refuse', 'median'"),
        ("--missing median", "--missing goes with --logic or a search for laws"),
        ("--transforms sin --formula alpha", "--formula"),
        ("--transforms sni --drop site", "perhaps you mean 'sin'"),
        ("--transforms sin --drop site --algorithm enumerate", "selects among given terms"),
        ("--transforms sin --drop site --model-prior uniform", "must be a ComplexityPrior"),
        ("--model-prior complexity=2", "complexity prior"),
        ("--transforms sin --drop site --mcse 0.01 --algorithm gmjmcmc", "Monte Carlo error"),
        ("--transforms none", "column 'site' holds text, such as"),
        ("--transforms sin --drop site --sampler pape", "sampler must be None, 'paper' or"),
    ],
)
def test_what_does_not_go_with_a_search_is_refused(files, capsys, line, words):
    assert main(["fit", "data.csv", "--target", "y", *line.split()]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"modejump {modejump.__version__}\n"
    assert main(["--help"]) == 0
    assert "predict" in capsys.readouterr().out
    assert main([]) == 0
    assert "Commands" in capsys.readouterr().out


def test_help_imports_none_of_the_slow_libraries():
    heavy = "numpy", "pandas", "scipy", "sklearn", "numba", "narwhals", "formulaic"
    code = (
        "import sys; from modejump.cli import main; main(['--help']); "
        f"print(sorted(set({heavy!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_help_is_quick():
    # Time of the processor, because the machine may be busy; nobody notices half a second.
    spent = []
    for _ in range(3):
        before = os.times()
        assert run("--help").returncode == 0
        after = os.times()
        spent.append(sum(after[2:4]) - sum(before[2:4]))
    assert min(spent) < 0.5


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_exits_with_130_and_one_sentence(files):
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(60, 40)), columns=[f"v{j}" for j in range(40)])
    table.assign(y=rng.normal(size=60)).to_csv("wide.csv", index=False)
    line = "fit wide.csv --target y --seconds 600 --out run --quiet"
    command = [sys.executable, "-m", "modejump", *line.split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not Path("run/job.json").exists() and process.poll() is None:
            time.sleep(0.1)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err and "interrupted; resume with" in err.splitlines()[-1]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that moves only when told."""

    def __init__(self, monkeypatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.mark.parametrize("wanted", [False, None])
def test_no_progress_is_reported_where_nobody_wants_it(wanted):
    with progress.reporter(wanted, io.StringIO()) as report:
        assert report is None


def test_a_bar_appears_after_two_seconds_only(monkeypatch):
    clock, stream = Clock(monkeypatch), Terminal()
    with progress.reporter("auto", stream) as report:
        report(1, 10, "sampling")
        assert stream.getvalue() == ""
        clock.now += 1.9
        report(2, 10, "sampling")
        assert stream.getvalue() == ""
        clock.now += 0.2
        report(3, 10, "sampling")
    assert "sampling" in stream.getvalue() and "30%" in stream.getvalue()


@pytest.mark.parametrize("wanted", [True, "auto"])
def test_lines_come_every_ten_seconds_without_a_terminal(wanted, monkeypatch):
    monkeypatch.setattr(progress, "FIRST_LINE", 10.0)
    clock, stream = Clock(monkeypatch), io.StringIO()
    with progress.reporter(wanted, stream) as report:
        for second in range(31):
            report(second, 60, "sampling")
            clock.now += 1
    assert stream.getvalue().splitlines() == [
        *(["modejump: sampling"] if wanted is True else []),
        "modejump: sampling, 17%, 1.0 /s, 0:00:50 left",
        "modejump: sampling, 33%, 1.0 /s, 0:00:40 left",
        "modejump: sampling, 50%, 1.0 /s, 0:00:30 left",
    ]


def test_transforms_are_listed_with_formulas_and_domains(capsys):
    assert main(["transforms"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert set(modejump.transforms) <= set(rows)
    assert "log(x)" in rows["p0"] and "x > 0" in rows["p0"] and "x^(-1/2)" in rows["pm05"]
