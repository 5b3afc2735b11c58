"""The papers' experiments: detection arithmetic, published figures, and the command that repeats them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from modejump.cli import main
from modejump.core import progress
from modejump.core.errors import InputError
from modejump.experiments import effort, protocols
from modejump.experiments.ceiling import exact_ceiling
from modejump.experiments.detection import Detection, clopper_pearson, detect, rates
from modejump.experiments.effort import Effort, find_laws
from modejump.experiments.ledger import run_key, run_seed, run_study
from modejump.experiments.protocols import COLUMNS, EXPERIMENTS, PROTOCOLS, Planets, default_spelling, planet_design
from modejump.experiments.published import published_figures
from modejump.experiments.reproduce import CEILING, Trial
from modejump.features.nonlinear.expression import Feature
from modejump.samplers.budget import Budget
from modejump.samplers.plan import Plan
from modejump.samplers.settings import Sampler
from modejump.samplers.warmup.search import Finished

KEYS = {
    "experiment", "protocol", "algorithm", "threads", "runs", "power", "power_low", "power_high", "fp", "fdr",
    "seconds_per_run", "well_searched", "laws", "published", "ceiling",
}  # fmt: skip
MASS = "PlanetaryDensJpt*RadiusJpt*RadiusJpt*RadiusJpt"
QUICK = ["--algorithm", "gmjmcmc", "--runs", "2", "--threads", "1,2"]


@pytest.fixture(scope="module")
def planets() -> Planets:
    return Planets.of()


@pytest.fixture
def no_ceiling(monkeypatch):
    """The exact posterior takes seconds; one test below computes it."""
    monkeypatch.setattr(protocols, "exact_ceiling", lambda problem, truth, eta: None)


@pytest.fixture
def trial(planets) -> Trial:
    return Trial(planet_design(EXPERIMENTS["mass"], "text", "canonical", planets), "paper", ["gmjmcmc"], [1, 2], 2, 5)


def problem_of(planets: Planets, name: str = "mass", protocol: str = "text"):
    return planets.problem(EXPERIMENTS[name], protocol, "canonical")


def test_detections_by_hand(planets):
    problem = problem_of(planets)
    truth = EXPERIMENTS["mass"].truth
    laws = [Feature.parse(t) for t in (MASS, "PeriodDays", "HostStarMassSlrMass")]
    seen = detect(problem, truth, laws, np.array([0.6, 0.3, 0.25]), 0.25)
    # A probability that equals the threshold does not exceed it.
    assert seen.true == (MASS,) and seen.false == ("PeriodDays",) and seen.fdr == 0.5
    assert seen.posterior == {MASS: 0.6, "PeriodDays": 0.3}
    nothing = detect(problem, truth, laws, np.array([0.2, 0.2, 0.2]), 0.25)
    assert nothing.true == nothing.false == () and nothing.fdr == 0.0
    none = detect(problem, truth, [], np.zeros(0), 0.25)
    assert none.true == () and none.posterior == {MASS: 0.0}


def test_another_spelling_of_a_true_law_counts_as_that_law(planets):
    problem = problem_of(planets)
    truth = EXPERIMENTS["mass"].truth
    # The cube root of a cube, up to sign, is the thing itself: all densities and radii are positive.
    alias = Feature.parse("*".join(["troot(PlanetaryDensJpt)"] * 3 + ["RadiusJpt"] * 3))
    seen = detect(problem, truth, [alias, Feature.parse("PeriodDays")], np.array([0.7, 0.1]), 0.25)
    assert seen.true == (MASS,) and seen.false == () and seen.posterior[MASS] == 0.7


def test_rates_of_many_runs():
    runs = [
        Detection(("a",), (), {}),
        Detection(("a", "b"), ("x", "y"), {}),
        Detection((), ("x",), {}),
        Detection((), (), {}),
    ]
    summary = rates(runs, ["a", "b", "c"])
    assert summary.power == 0.5 and summary.fp == 0.75
    assert summary.fdr == (0.0 + 0.5 + 1.0 + 0.0) / 4
    assert summary.laws == {"a": 0.5, "b": 0.25, "c": 0.0}
    assert (summary.power_low, summary.power_high) == clopper_pearson(2, 4)
    # Where each law counts, three of twelve were detected; what is false is as it was.
    each = rates(runs, ["a", "b", "c"], each=True)
    assert each.power == 3 / 12 and (each.power_low, each.power_high) == clopper_pearson(3, 12)
    assert (each.fp, each.fdr, each.laws) == (summary.fp, summary.fdr, summary.laws)


@pytest.mark.parametrize(("hits", "runs"), [(1, 10), (7, 10), (93, 100), (50, 100)])
def test_clopper_pearson_inverts_the_binomial_tails(hits, runs):
    low, high = clopper_pearson(hits, runs)
    assert binom.sf(hits - 1, runs, low) == pytest.approx(0.025, rel=1e-8)
    assert binom.cdf(hits, runs, high) == pytest.approx(0.025, rel=1e-8)


def test_clopper_pearson_at_the_ends():
    assert clopper_pearson(0, 20) == (0.0, pytest.approx(1 - 0.025 ** (1 / 20)))
    assert clopper_pearson(20, 20) == (pytest.approx(0.025 ** (1 / 20)), 1.0)


def test_published_figures_stand_in_the_papers_rows_only():
    for experiment, design in EXPERIMENTS.items():
        for algorithm in effort.ALGORITHMS:
            for threads in design.threads:
                assert published_figures(experiment, algorithm, threads) is not None
            assert published_figures(experiment, algorithm, 3) is None
    assert published_figures("kepler", "gmjmcmc", 16) == (0.83, 0.55, 0.22, ())


def test_seeds_differ_by_run_and_by_nothing_else():
    def state(*names_and_numbers, seed=1):
        *names, threads, run = names_and_numbers
        return tuple(run_seed(seed, *names, threads, run).generate_state(4))

    cells = [("mass", "text", "gmjmcmc", 1, 0), ("mass", "text", "gmjmcmc", 1, 1), ("mass", "text", "gmjmcmc", 4, 0),
             ("mass", "text", "rgmjmcmc", 1, 0), ("mass", "script", "gmjmcmc", 1, 0),
             ("kepler", "text", "gmjmcmc", 1, 0)]  # fmt: skip
    assert len({state(*cell) for cell in cells}) == len(cells)
    assert state(*cells[0]) == state(*cells[0]) != state(*cells[0], seed=2)


def test_protocols_have_the_priors_of_the_papers(planets):
    n = len(planets.frame)
    for name, design in EXPERIMENTS.items():
        for protocol in PROTOCOLS:
            problem = planets.problem(design, protocol, default_spelling(name, protocol), population=15)
            power, coefficients = (2, "jeffreys") if protocol == "text" else (1, "known-variance")
            assert problem.model_prior.log_a(n) == pytest.approx(-power * np.log(n))
            assert problem.coef_prior.name == coefficients
            assert problem.model_prior.spelling == ("trees" if (name, protocol) == ("mass", "script") else "canonical")
            limits = problem.language.limits
            assert (limits.depth, limits.size, limits.population) == (5, 15, 15)
            assert design.target not in problem.names and len(problem.names) == 10
            assert {t.name for t in problem.language.transforms} == {
                "sigmoid", "sin_deg", "exp_abs", "log1p_abs", "troot", "to23", "to35",
            }  # fmt: skip


def test_a_chain_of_the_papers_budget_holds_its_last_population(planets):
    problem = planets.problem(EXPERIMENTS["mass"], "text", "canonical", population=15)
    short = effort._paper_chain(problem, Effort(distinct=0), np.random.SeedSequence(3))
    chain = effort._paper_chain(problem, Effort(distinct=2_500), np.random.SeedSequence(3))
    # The features stay, and only the models among them grow in number.
    np.testing.assert_array_equal(chain.arrays.population.feature, short.arrays.population.feature)
    assert chain.arrays.archive.scalars["distinct"] >= 2_500 > short.arrays.archive.scalars["distinct"]
    more, fewer = ({f for m in Finished.of(c).collected for f in m} for c in (chain, short))
    assert more >= fewer


def test_rows_resume_and_jobs(planets, trial, no_ceiling, tmp_path, monkeypatch):
    path = tmp_path / "rows.json"
    rows = run_study(trial, path)
    assert [set(row) for row in rows] == [KEYS] * 2
    assert [row["threads"] for row in rows] == [1, 2]
    assert all(row["runs"] == 2 and set(row["laws"]) == {MASS} for row in rows)
    assert [row["published"] is None for row in rows] == [False, True]
    held = json.loads(path.read_text())
    assert held["rows"] == rows and held["settings"] == trial.settings
    runs = {run_key("gmjmcmc", t, i) for t in (1, 2) for i in (0, 1)}
    assert set(held["outcomes"]) == {run_key(CEILING, 0, 0), *runs}

    # Side by side, every run is what it was, its time apart.
    beside = tmp_path / "beside.json"
    run_study(trial, beside, jobs=3)
    again = json.loads(beside.read_text())["outcomes"]
    for key, outcome in held["outcomes"].items():
        assert {**outcome, "seconds": 0} == {**again[key], "seconds": 0}

    # A second call computes nothing; a file that lacks a run computes that one.
    calls = []
    whole = Trial.run
    monkeypatch.setattr(Trial, "run", lambda self, cell: calls.append(cell) or whole(self, cell))
    assert run_study(trial, path) == rows and calls == []
    kept = held["outcomes"].pop(run_key("gmjmcmc", 2, 1))
    path.write_text(json.dumps(held))
    run_study(trial, path)
    assert calls == [("", "gmjmcmc", 2, 1)]
    made = json.loads(path.read_text())["outcomes"][run_key("gmjmcmc", 2, 1)]
    assert {**made, "seconds": 0} == {**kept, "seconds": 0}
    assert list(tmp_path.glob(".*")) == []

    with pytest.raises(InputError, match="seed 5, and 6 is asked for"):
        run_study(replace(trial, seed=6), path)


def test_an_interrupted_experiment_keeps_what_was_done(trial, no_ceiling, tmp_path, monkeypatch):
    path = tmp_path / "rows.json"
    whole = Trial.run

    def run(self, cell):
        if cell[2] == 2:
            raise KeyboardInterrupt
        return whole(self, cell)

    monkeypatch.setattr(Trial, "run", run)
    for jobs in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            run_study(trial, path, jobs)
        assert run_key("gmjmcmc", 1, 0) in json.loads(path.read_text())["outcomes"]


def test_reversible_sampler_is_called_with_the_papers_budget(planets, monkeypatch):
    problem = planets.problem(EXPERIMENTS["mass"], "text", "canonical", population=15)
    calls = []
    monkeypatch.setattr(effort, "sample", lambda problem, plan: calls.append(plan))
    monkeypatch.setattr(effort, "Posterior", lambda problem, result: result)
    seed = np.random.SeedSequence(1)
    for budget in ("paper", "seconds=2"):
        find_laws(problem, "rgmjmcmc", 4, Effort.parse(budget, Effort(distinct=10_000)), seed, Sampler.paper())
    common = {"chains": 4, "seed": seed, "search_steps": 250, "settings": Sampler.paper()}
    # Half of the distinct models that the budget allows may complete the library.
    paper = {"budget": Budget(warmup=5_000, steps=5_000), "distinct": 10_000, "edits": 20_000}
    assert calls == [
        Plan("rgmjmcmc", **common, **paper), Plan("rgmjmcmc", **common, budget=Budget(seconds=2.0))
    ]  # fmt: skip


def test_command_prints_a_table_of_80_columns(no_ceiling, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "LINE_EVERY", 1e9)
    path = tmp_path / "rows.json"
    line = ["reproduce", "kepler", *QUICK, "--json", str(path), "--budget", "seconds=0.3"]
    assert main(line) == 0
    out, err = capsys.readouterr()
    assert err == "" and all(len(text) <= 80 for text in out.splitlines())
    words = " ".join(out.split())
    for part in ("Protocol script", "Published figures", "gmjmcmc 1 2", "HostStarMass", "not known"):
        assert part in words
    rows = json.loads(path.read_text())["rows"]
    assert all(row["seconds_per_run"] >= 0.3 for row in rows)
    assert main([*line, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert json.loads(path.read_text())["rows"] == rows
    assert main([*line[:-1], "seconds=0.4"]) == 2
    assert "budget" in capsys.readouterr().err


def test_catalogue_with_published_figures_and_ceiling(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "LINE_EVERY", 1e9)
    path = tmp_path / "rows.json"
    line = ["reproduce", "mass", "--runs", "1", "--algorithm", "gmjmcmc", "--json", str(path)]
    assert main([*line, "--threads", "4"]) == 0
    out = capsys.readouterr().out
    assert "(0.69)" in out and "(0.49)" in out and all(len(text) <= 80 for text in out.splitlines())
    (row,) = json.loads(path.read_text())["rows"]
    assert row["published"] == {"power": 0.69, "fp": 0.49, "fdr": 0.34}
    assert [row["ceiling"][name] for name in ("power", "fp", "fdr")] == [1.0, 0.0, 0.0]


def test_ceiling_of_the_program_s_prior_has_a_false_detection(planets):
    """What is known of the catalogue: the tree prior leaves two laws above the threshold, one of them false."""
    design = EXPERIMENTS["mass"]
    ceiling = exact_ceiling(planets.problem(design, "script", "trees"), design.truth, design.eta)
    assert (len(ceiling.true), len(ceiling.false), ceiling.fdr) == (1, 1, 0.5)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing"], "unknown experiment 'nothing'"),
        (["mass", "--features", "bgnlm"], "--features does not go with mass"),
        (["logic", "--features", "poems"], "unknown --features 'poems'"),
        (["logic", "--protocol", "script"], "unknown --protocol 'script'"),
        (["logic", "--data", "a.csv"], "--data does not go with logic"),
        (["logic", "--spelling", "trees"], "--spelling does not go with logic"),
        (["logic", "--budget", "forever"], "--budget 'forever' is not known"),
        (["mass", "--protocol", "song"], "unknown --protocol 'song'"),
        (["mass", "--spelling", "wild"], "unknown --spelling 'wild'"),
        (["kepler", "--spelling", "trees"], "--spelling does not go with kepler"),
        (["mass", "--algorithm", "gmjmcmc,magic"], "unknown --algorithm 'magic'"),
        (["mass", "--threads", "1,two"], "--threads has 'two'"),
        (["mass", "--threads", "0"], "--threads has '0'"),
        (["mass", "--runs", "0"], "--runs is 0"),
        (["mass", "--budget", "forever"], "--budget 'forever' is not known"),
        (["mass", "--budget", "seconds=-1"], "--budget 'seconds=-1' is not known"),
        (["mass", "--budget", "seconds=nan"], "--budget 'seconds=nan' is not known"),
        (["mass", "--jobs", "0"], "--jobs is 0"),
        (["mass", "--seed", "-1"], "--seed is -1"),
        (["mass", "--seconds", "1"], "--seconds does not go with mass"),
        (["mass", "--plot", "a.png"], "--plot does not go with mass"),
        (["mass", "--data", "missing.csv"], "does not exist"),
        (["mass", "--json", "no/such/rows.json"], "directory that does not exist"),
        (["mass", "--json", "."], "is a directory"),
    ],
)
def test_wrong_arguments(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1


def test_tables_that_do_not_fit(planets, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame = planets.frame
    assert set(frame.columns) == set(COLUMNS)
    frame.drop(columns="PeriodDays").to_csv("short.csv", index=False)
    assert main(["reproduce", "kepler", "--data", "short.csv"]) == 2
    assert "short.csv has no column 'PeriodDays'" in capsys.readouterr().err
    frame.assign(RadiusJpt="large").to_csv("text.csv", index=False)
    assert main(["reproduce", "kepler", "--data", "text.csv"]) == 2
    assert "'RadiusJpt' of text.csv holds text" in capsys.readouterr().err
    (tmp_path / "other.json").write_text("[1, 2]")
    assert main(["reproduce", "kepler", "--json", "other.json"]) == 2
    assert "not a file of this experiment" in capsys.readouterr().err
