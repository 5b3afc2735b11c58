"""The benchmark measures what it says: its numbers are right on problems small enough to know. No speed is tested."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from bench import __main__ as command
from bench import genetic, instructions, logistic, parallel, problems, reversible, rows, table
from bench.adapters import r as r_adapter
from bench.adapters.ours import Ours, PhaseClock, frequency, log_null, log_sum
from bench.adapters.plain import Metropolis, Plain
from bench.child import resident, run_child
from bench.measure import Clock, Line, Missing, Note, Pace, Series, interleave, rate_lines, timed
from bench.problems import Case, gauss, twins
from brute import brute_force
from conftest import read_large
from scipy.stats import norm

from modejump.experiments import load_exoplanets
from modejump.samplers.diagnostics import Diagnostics, diagnose

ROOT = Path(__file__).resolve().parents[2]
TINY = rows.Scale(
    repetitions=2,
    terms=6,
    steps=4000,
    kernel_steps=2000,
    seconds=(0.01,),
    seeds=2,
    slow_seeds=1,
    first_models=50,
    protein_seconds=0.3,
    protein_models=500,
    fresh=(),
    wide=(20, 50),
    chunk_rows=3000,
    long=2000,
    logistic=logistic.Size(1, 1, 100, 8, 500, 200),
)
SMALL = reversible.Size(2, chains=2, seconds=0.01, search=20, reference=10_000, populations=50, warm_up=1000)


@pytest.fixture(scope="module")
def case() -> Case:
    return gauss(6)


@pytest.fixture(scope="module")
def bench() -> rows.Bench:
    return rows.Bench(TINY)


def lines_of(outcome: rows.Outcome) -> list[Line]:
    return [entry for entry in outcome if isinstance(entry, Line)]


# Measuring


def test_a_series_knows_its_middle_and_its_best() -> None:
    series = Series.of([3.0, 1.0, 8.0])
    assert (series.median, series.mean) == (3.0, 4.0)
    assert (series.best(less=True), series.best(less=False)) == (1.0, 8.0)


@pytest.mark.parametrize("less, expected", [(True, 4.0), (False, 0.25)])
def test_a_ratio_above_one_means_that_ours_is_better(less: bool, expected: float) -> None:
    line = Line(1, "what", "unit", Series.of([2.0]), Series.of([8.0]), "who", less=less)
    assert line.ratio == expected


def test_a_line_without_comparison_has_no_ratio() -> None:
    assert Line(1, "what", "unit", Series.of([2.0])).ratio is None


def test_a_mean_stands_for_a_series_where_asked() -> None:
    line = Line(1, "what", "unit", Series.of([1.0, 1.0, 4.0]), Series.of([1.0]), "who", centre="mean")
    assert line.ratio == 2.0


def test_rates_are_work_over_each_clock() -> None:
    cpu, wall = rate_lines(1, "what", "models", [Pace(100, Clock(2.0, 4.0))], [Pace(50, Clock(5.0, 1.0))], "who")
    assert (cpu.ours.median, cpu.ratio) == (50.0, 5.0)
    assert (wall.ours.median, wall.ratio) == (25.0, 0.5)


def test_repetitions_take_turns() -> None:
    order: list[tuple[str, int]] = []
    jobs = {name: (lambda i, name=name: order.append((name, i))) for name in "ab"}
    interleave(jobs, 2)
    assert order == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


def test_a_slow_job_takes_part_in_the_first_rounds_only() -> None:
    found, _ = interleave({"fast": float, "slow": float}, 3, {"slow": 1})
    assert found == {"fast": [0.0, 1.0, 2.0], "slow": [0.0]}


def test_a_job_that_misses_something_is_left_out_with_its_reason() -> None:
    def fails(i: int) -> float:
        raise Missing("no such program.")

    found, reasons = interleave({"good": float, "bad": fails}, 3)
    assert found == {"good": [0.0, 1.0, 2.0]}
    assert reasons == ["no such program."]


def test_cpu_time_counts_work_and_not_waiting() -> None:
    _, waiting = timed(lambda: time.sleep(0.2))
    assert waiting.wall >= 0.2
    assert waiting.cpu < waiting.wall


def test_phase_clock_tells_warm_up_from_sampling() -> None:
    clock = PhaseClock()
    clock(0.1, 1.0, "warm-up")
    clock(0.2, 1.0, "learning")
    warm = clock.warm
    clock(0.6, 1.0, "sampling")
    clock(1.0, 1.0, "sampling, 1.30 million steps/s")
    assert clock.warm == warm
    whole = clock.ended - clock.begun
    assert clock.warmup.wall > 0 and clock.sampling.wall > 0
    assert clock.warmup.wall + clock.sampling.wall == pytest.approx(whole.wall, rel=1e-9)


# Programs


@pytest.mark.parametrize("build", [gauss, twins])
def test_both_enumerations_equal_brute_force(build) -> None:
    case = build(6)
    exact = brute_force(case.problem)
    log_total = exact.log_evidence - log_null(case.problem)
    for found in (Ours().enumerate(case), Ours().enumerate(case, workers=2), Plain().enumerate(case)):
        np.testing.assert_allclose(found.inclusion, exact.renormalised, rtol=0, atol=1e-9)
        assert found.log_total == pytest.approx(log_total, abs=1e-9)
        assert found.models == 64


def test_plain_metropolis_has_the_posterior_as_its_law(case: Case) -> None:
    exact = Plain().enumerate(case).inclusion
    chain = Metropolis(case, seed=3)
    chain.advance(500)
    batches = np.array([chain.advance(500) / 500 for _ in range(40)])
    mcse = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    # Terms that never move have no error to measure in; their probability is within 1 / steps of 0 or 1.
    moving = mcse > 0
    level = norm.isf(0.5 * 1e-4 / case.terms)
    assert (np.abs(batches.mean(axis=0) - exact)[moving] < level * mcse[moving]).all()
    assert (np.abs(batches.mean(axis=0) - exact)[~moving] < 1e-3).all()


def test_plain_metropolis_evaluates_each_model_as_we_do(case: Case) -> None:
    chain = Metropolis(case, seed=4)
    chain.advance(3000)
    exact = brute_force(case.problem).models
    known = {row.tobytes(): v for row, v in zip(exact.membership(case.terms), exact.log_posterior)}
    for key, value in chain.known.items():
        assert value == pytest.approx(known[key] - log_null(case.problem), abs=1e-9)


def test_samplers_report_the_steps_they_were_asked_for(case: Case) -> None:
    for sampler in (Ours(), Plain()):
        run = sampler.sample(case, 6400, seed=1)
        assert run.steps == 6400
        assert run.inclusion.shape == (6,)
        assert ((run.inclusion >= 0) & (run.inclusion <= 1)).all()
        assert run.clock.cpu > 0


def test_all_models_capture_all_mass_and_few_capture_less(case: Case) -> None:
    ours, plain = Ours(), Plain()
    log_total = ours.enumerate(case).log_total
    assert ours.capture(case, 64, seed=1) == pytest.approx(log_total, abs=1e-9)
    best = ours.best(case, 5)
    for captured in (ours.capture(case, 5, 1), ours.capture(case, 5, 1, warm_up=False), plain.capture(case, 5, 1)):
        assert captured <= best + 1e-9
    assert best < log_total


def test_first_models_are_the_first_that_were_evaluated(case: Case) -> None:
    # Best-first search starts with the model without terms and its neighbours: seven models of at most one term.
    values = [0.0]
    for j in range(case.terms):
        both = Plain().enumerate(Case("one", case.x[:, [j]], case.y, case.g)).log_total
        values.append(np.log(np.expm1(both)))
    assert Ours().capture(case, 7, seed=1) == pytest.approx(log_sum(np.array(values)), abs=1e-9)


def test_frequencies_need_chains(case: Case) -> None:
    with pytest.raises(ValueError, match="no frequencies"):
        frequency(brute_force(case.problem))


def test_calibration_finds_the_steps_for_a_time(case: Case) -> None:
    class Steady:
        name, most_steps, slow = "steady", 10**9, False

        def sample(self, case: Case, steps: int, seed: int):
            return rows.Sampled(np.zeros(6), steps, Clock(steps / 5e5, 1.0), Clock(0.0, 0.0), 1)

    assert rows.calibrated(Steady(), case, 6.0) == 3_000_000


# Problems


def test_twins_are_nearly_copies() -> None:
    x = twins().x
    assert np.corrcoef(x[:, 0], x[:, -1])[0, 1] > 0.99
    assert twins().terms == 20 and len(twins().y) == 223


def test_models_of_five_to_ten_terms_hold_the_mass_of_gauss20() -> None:
    assert 5 <= Ours().enumerate(gauss()).inclusion.sum() <= 10


def test_missing_data_are_named_and_other_rows_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bench: rows.Bench
) -> None:
    monkeypatch.setattr(problems, "LARGE", tmp_path)
    _, outcome = command.run_row(bench, 6)
    assert len(outcome) == 1
    assert isinstance(outcome[0], Note)
    assert "protein.csv is not part of the repository" in outcome[0].text


def test_data_are_read_with_the_response_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "protein.csv").write_text("x1,y,x2\n1,10,2\n3,20,4\n", encoding="utf-8")
    monkeypatch.setattr(problems, "LARGE", tmp_path)
    read = problems.protein()
    assert read.x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert read.y.tolist() == [10.0, 20.0]


# R


def test_r_is_never_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(r_adapter.shutil, "which", lambda name: None)
    reason = r_adapter.RProgram("BAS").missing()
    assert reason == "R package BAS not found: there is no Rscript on the path."


@pytest.fixture
def fake_r(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A program in place of Rscript that checks its arguments and prints what a script would print."""

    def install(body: str) -> r_adapter.RProgram:
        program = tmp_path / "Rscript"
        program.write_text(f"#!{sys.executable}\nimport sys\n{body}\n", encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setattr(r_adapter.shutil, "which", lambda name: str(program))
        return r_adapter.RProgram("BAS")

    return install


def test_an_absent_r_package_is_named(fake_r) -> None:
    assert fake_r("sys.exit(1)").missing() == "R package BAS not found."


def test_output_of_an_r_script_is_read(fake_r, case: Case) -> None:
    program = fake_r(
        "rows = open(sys.argv[2]).read().splitlines()\n"
        "assert rows[0] == 'y,x1,x2,x3,x4,x5,x6' and len(rows) == 224\n"
        "assert sys.argv[3:] == ['223.0', 'sample', '1000', '100', '7']\n"
        "print('noise')\n"
        "print('= clock 1.1 2.2 ')\n"
        "print('= inclusion 0.1 0.2 0.3 0.4 0.5 0.6')\n"
        "print('= models 17')\n"
    )
    run = program.sample(case, 1000, seed=7)
    assert run.inclusion.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert run.clock == pytest.approx((1.0, 2.0))
    assert run.warmup == pytest.approx((0.1, 0.2))
    assert run.distinct == 17


def test_an_r_script_that_fails_becomes_one_sentence(fake_r, case: Case) -> None:
    program = fake_r("sys.stderr.write('Error: no room\\nExecution halted\\n'); sys.exit(1)")
    with pytest.raises(Missing, match="BAS did not do the task enumerate on gauss6: Error: no room"):
        program.enumerate(case)


# Rows


def test_row_1_compares_equal_answers(bench: rows.Bench) -> None:
    outcome = list(rows.row_enumeration(bench))
    assert [entry.text for entry in outcome if isinstance(entry, Note)] == []
    assert {line.who for line in lines_of(iter(outcome))} == {"NumPy", "one thread"}


def test_row_1_says_where_a_program_is_wrong() -> None:
    class Wrong(Plain):
        def enumerate(self, case: Case):
            found = super().enumerate(case)
            return found._replace(inclusion=found.inclusion + 1e-3)

    notes = [e.text for e in rows.row_enumeration(rows.Bench(TINY, plain=Wrong())) if isinstance(e, Note)]
    assert notes == ["NumPy and modejump disagree by 0.001 in an inclusion probability."]


def test_row_2_has_every_kernel(bench: rows.Bench) -> None:
    lines = lines_of(rows.row_steps(bench))
    kernels = [line.what.split(", ")[1] for line in lines if not line.who]
    assert [text.split(" ")[0] for text in kernels] == list(rows.KERNELS)
    assert all(value > 0 for line in lines for value in line.ours.values)


def test_row_4_measures_errors_against_the_exact_answer(bench: rows.Bench) -> None:
    (line,) = lines_of(rows.row_twins(bench))
    exact = brute_force(twins(6).problem).renormalised
    runs = [Ours().sample(twins(6), TINY.steps, seed).inclusion for seed in range(TINY.seeds)]
    assert line.ours.values == pytest.approx([float(np.abs(run - exact).max()) for run in runs], abs=1e-9)
    assert line.theirs is not None and len(line.theirs.values) == TINY.slow_seeds


def test_rows_of_the_crime_data(bench: rows.Bench) -> None:
    errors = lines_of(rows.row_crime_error(bench))
    assert all(0 < value < 1 for line in errors for value in line.ours.values)
    captured = lines_of(rows.row_captured(bench))
    best = next(line for line in captured if line.who == "best possible")
    assert best.theirs is not None
    for line in captured:
        assert max(line.ours.values) <= best.theirs.median + 1e-9


def test_row_of_the_protein_data(bench: rows.Bench) -> None:
    read_large("protein")
    lines = lines_of(rows.row_protein(bench))
    assert [line.unit for line in lines] == ["probability", "times null", "times null"]
    first, best = lines[1:]
    assert all(f <= b * (1 + 1e-9) for f, b in zip(first.ours.values, best.ours.values))


def test_memory_of_a_process_is_its_own() -> None:
    ballast = np.ones(40 * 2**20 // 8)
    assert resident("VmHWM") >= resident("VmRSS") > ballast.nbytes
    figures = run_child("memory", *TINY.wide)
    assert figures["table"] == 20 * 50 * 8
    assert 0 < figures["before"] <= figures["after"]


def test_a_child_that_fails_becomes_one_sentence() -> None:
    with pytest.raises(Missing, match="the measurement first-fit enumerate nowhere failed: the package was not"):
        run_child("first-fit", "enumerate", "nowhere")


def test_first_fits_left_out_are_named(bench: rows.Bench) -> None:
    notes = list(rows.row_first_fit(bench))
    assert len(notes) == 2 and all(isinstance(note, Note) for note in notes)


def test_instructions_are_a_difference_over_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def counter(command: list[str], env: dict[str, str]) -> int:
        return 10**6 + 300 * 2 ** int(command[-1])

    def child(*arguments: object, env: dict[str, str] | None = None) -> dict[str, float]:
        return {"count": 2.0 ** int(str(arguments[-1]))}

    monkeypatch.setattr(instructions, "choose_counter", lambda: ("count", counter, {}))
    monkeypatch.setattr(instructions, "run_child", child)
    assert instructions.instructions_per_unit("enumerate", 4, 8) == ("count", 300.0)


def test_a_machine_without_counters_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instructions.shutil, "which", lambda name: None)
    with pytest.raises(Missing, match="instructions are not counted"):
        instructions.choose_counter()


# Command line


@pytest.mark.parametrize(
    "value, text",
    [
        (6_621_000.0, "6.62 M"),
        (45_300.0, "45.3 k"),
        (0.00312, "0.0031"),
        (21.0, "21.0"),
        (6.1e21, "6.10e+21"),
        (0.0, "0"),
    ],
)
def test_figures_have_few_digits(value: float, text: str) -> None:
    assert table.figure(value) == text


def test_all_figures_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(command, "QUICK", TINY)
    monkeypatch.setattr(r_adapter.shutil, "which", lambda name: None)
    file = tmp_path / "figures.json"
    assert command.main(["--quick", "--rows", "1,4", "--json", str(file)]) == 0
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert [row["row"] for row in kept["rows"]] == [1, 4]
    line = kept["rows"][0]["lines"][0]
    assert len(line["ours"]) == len(line["theirs"]) == TINY.repetitions
    printed = capsys.readouterr().out
    assert "R package BAS not found" in printed and "twins6" in printed


def test_unknown_rows_are_refused(capsys: pytest.CaptureFixture) -> None:
    last = max(rows.ROWS)
    asked = f"1,{last + 1}"
    with pytest.raises(SystemExit, match="2"):
        command.main(["--rows", asked])
    assert f"'{asked}' does not name rows; give numbers of 1 to {last}." in capsys.readouterr().err


def test_row_14_compares_fits_with_a_plain_loop(bench: rows.Bench) -> None:
    *lines, memory = lines_of(rows.row_long(bench))
    assert [line.who.split(" of ")[-1] for line in lines] == ["a plain loop"] * 2
    assert memory.unit == "MiB"


def test_row_15_enumerates_captures_and_compares(bench: rows.Bench) -> None:
    read_large("logistic20"), read_large("spam")
    lines = lines_of(rows.row_logistic(bench))
    assert [line.unit for line in lines] == ["models/CPU s", "wall s", "CPU s", "mass", "mass", *["draws/CPU s"] * 2]
    for line in lines[3:5]:
        assert line.theirs is not None
        assert 0.0 < line.ours.mean <= line.theirs.mean + 1e-9 <= 1.0 + 2e-9


def test_populations_are_timed_on_a_search_that_runs() -> None:
    first, second, note = genetic.lines(9, populations=5, repetitions=2)
    assert isinstance(first, Line) and isinstance(second, Line) and isinstance(note, Note)
    seconds, models = genetic.population_seconds(genetic.planets_problem(60), 3, 20, 1)
    assert seconds > 0.0 and 1.0 <= models <= 20 * 300


# The reversible sampler


@pytest.fixture
def one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reversible, "CASES", {"(II) script": ("kepler", "script")})


@pytest.fixture(scope="module")
def setup() -> reversible.Setup:
    catalogue = reversible.Planets.of(load_exoplanets()[:60])
    return reversible.set_up(reversible.case_problem(catalogue, "(II) script"), SMALL)


def crossing(means: np.ndarray, seconds: float = 1.0) -> reversible.Crossing:
    """An outcome with the diagnostics of such batch means, of 100 steps each."""
    return reversible.Crossing(np.array([10, 1, 0]), 100, seconds, diagnose(means, 100), 0.0)


def test_a_bare_library_has_the_covariates_alone(setup: reversible.Setup) -> None:
    bare = reversible.covariates_only(setup.problem)
    assert [f.text for f in bare.features] == list(setup.problem.names)


def test_a_setup_is_the_same_every_time(setup: reversible.Setup) -> None:
    again = reversible.set_up(setup.problem, SMALL)
    assert again.library.features == setup.library.features
    assert again.tracked == setup.tracked
    np.testing.assert_array_equal(again.learnt, setup.learnt)
    np.testing.assert_array_equal(again.reference.frequency, setup.reference.frequency)


def test_tracked_features_are_uncertain(setup: reversible.Setup) -> None:
    low, high = reversible.UNCERTAIN
    assert set(setup.tracked) <= set(setup.library.features)
    assert ((setup.reference.frequency > low) & (setup.reference.frequency < high)).all()


def test_means_of_library_and_fresh_features_add_up_to_the_size_of_models(setup: reversible.Setup) -> None:
    seeds = [np.random.SeedSequence(5)]
    bare = reversible.covariates_only(setup.problem)
    (chain,) = chains = reversible.started(setup.problem, bare, {"literal": 1.0}, {}, seeds)
    chain.run_batches(40)
    features = list(bare.features) + sorted({f for stay in chain.stays for f in stay})
    assert len(features) > len(bare.features)
    sizes = chain.arrays.chain.record.sizes
    mean_size = float(sizes @ np.arange(len(sizes)) / sizes.sum())
    assert reversible.diagnosed(chains, features).frequency.sum() == pytest.approx(mean_size, rel=1e-9)


def test_a_feature_that_never_moved_has_no_effective_draws() -> None:
    rng = np.random.default_rng(1)
    means = rng.uniform(0.3, 0.7, (2, 40, 2))
    moving = reversible.worst_rate(crossing(means, seconds=2.0))
    assert moving == pytest.approx(diagnose(means, 100).ess.min() / 2.0)
    means[:, :, 1] = 1.0
    assert reversible.worst_rate(crossing(means)) == 0.0


def test_frequencies_apart_from_the_reference_are_found() -> None:
    def of(frequency: float, mcse: float) -> Diagnostics:
        return Diagnostics(*(np.array([value]) for value in (frequency, mcse, 1.0, 1.0)))

    known = SimpleNamespace(tracked=("one",), reference=of(0.5, 0.001))
    runs = [crossing(np.zeros((1, 4, 1)))._replace(found=of(*figures)) for figures in ((0.51, 0.01), (0.50, 0.01))]
    assert reversible.away(known, runs) is None
    runs = [run._replace(found=of(0.7, 0.01)) for run in runs]
    assert reversible.away(known, runs) == pytest.approx(0.2)
    # Chains that never moved claim no error at all.
    assert reversible.away(known, [runs[0]._replace(found=of(0.0, 0.0))]) == pytest.approx(0.5)


def test_lines_of_a_case_are_shares_and_rates_against_no_moves() -> None:
    figures = Diagnostics(*(np.array([value]) for value in (0.4, 0.01, 500.0, 1.0)))
    known = SimpleNamespace(tracked=("one",), reference=figures, best=3.0, library=SimpleNamespace(features=("one",)))
    run = reversible.Crossing(np.array([200, 10, 50]), 1000, 0.5, figures, 3.0)
    still = run._replace(tried=np.zeros(3, np.int64), seconds=1.0)
    lost = run._replace(found=figures._replace(frequency=np.array([0.9])), best=1.0)
    found = {setting: [run, run] for setting in reversible.SETTINGS}
    found |= {reversible.QUIET: [still, still], reversible.BARE: [lost, lost]}
    outcome = list(reversible.case_lines(10, "case", known, found))
    by_name = {(line.what.removeprefix("case, "), line.unit): line for line in lines_of(iter(outcome))}
    draws = by_name["edit", "effective draws/CPU s"]
    assert (draws.ours.median, draws.ratio, draws.who) == (1000.0, 2.0, reversible.QUIET)
    assert by_name["edit", "steps/CPU s"].ratio == 2.0
    assert by_name["edit", "share changing the model"].ours.median == 0.05
    assert by_name["literal (Theorem 1)", "share with zero reverse"].ours.median == 0.25
    zero = {name for name, unit in by_name if unit == "share with zero reverse"}
    both = {"small", "delayed (Theorem 2)", "literal (Theorem 1)", "default mixture", reversible.BARE}
    assert zero == both
    assert (reversible.QUIET, "share changing the model") not in by_name
    assert (reversible.BARE, "effective draws/CPU s") not in by_name
    (note,) = [e.text for e in outcome if isinstance(e, Note) and reversible.BARE in e.text]
    assert "0.5 away from the reference" in note and "within 2 of the best" in note


def test_chains_apart_in_every_repetition_have_no_effective_draws_and_in_some_are_counted() -> None:
    figures = Diagnostics(*(np.array([value]) for value in (0.4, 0.01, 500.0, 1.0)))
    known = SimpleNamespace(tracked=("one",), reference=figures, best=3.0, library=SimpleNamespace(features=("one",)))
    run = reversible.Crossing(np.array([200, 10, 50]), 1000, 0.5, figures, 3.0)
    far = run._replace(found=figures._replace(r_hat=np.array([2.0]), ess=np.array([4.0]), mcse=np.array([0.3])))
    stuck = run._replace(found=figures._replace(r_hat=np.array([np.nan]), mcse=np.array([0.3])))
    found = {setting: [run, run] for setting in reversible.SETTINGS}
    found |= {"edit": [run, far], "small": [far, stuck]}
    outcome = list(reversible.case_lines(10, "case", known, found))
    drawn = {line.what for line in lines_of(iter(outcome)) if line.unit == "effective draws/CPU s"}
    assert "case, edit" in drawn and "case, small" not in drawn
    notes = [entry.text for entry in outcome if isinstance(entry, Note)]
    assert any(text.startswith("case, small: chains disagree") for text in notes)
    (lowest,) = [text for text in notes if "lowest repetition" in text]
    assert "edit 8 (chains apart in 1 of 2 repetitions)" in lowest and "small" not in lowest


def test_row_10_has_every_setting(one_case: None) -> None:
    outcome = list(reversible.compare_moves(10, SMALL))
    lines = lines_of(iter(outcome))
    steps = [line.what.removeprefix("(II) script, ") for line in lines if line.unit == "steps/CPU s"]
    assert steps == list(reversible.SETTINGS)
    assert all(len(line.ours.values) == SMALL.repetitions for line in lines)
    assert all(0.0 <= value <= 1.0 for line in lines if line.unit.startswith("share") for value in line.ours.values)


def test_row_11_has_no_ratio_to_what_was_measured_elsewhere(one_case: None) -> None:
    outcome = list(reversible.measure_speed(11, SMALL))
    lines = lines_of(iter(outcome))
    assert [line.unit for line in lines] == ["steps/CPU s", "steps/wall s", "populations/CPU s", "features/CPU s"]
    assert all(value > 0 for line in lines for value in line.ours.values)
    assert all(line.ratio is None and not line.who for line in lines)
    (note,) = [entry.text for entry in outcome if isinstance(entry, Note) and "FBMS" in entry.text]
    assert "not run by this row" in note and "Measured elsewhere" in note


def test_row_12_compares_the_same_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    # Processes take seconds to start, and have tests of their own.
    monkeypatch.setitem(parallel.WORKERS, "two processes", "threading")
    size = parallel.Size(1, chains=2, terms=6, steps=2000, reversible_steps=500, seconds=0.3, every=0.01)
    outcome = list(parallel.lines(12, size))
    lines = lines_of(iter(outcome))
    threads, processes = ["steps/CPU s", "steps/wall s", "wall s"], ["steps/wall s", "wall s"]
    assert [line.unit for line in lines] == 2 * [*threads, *processes, "share of wall"]
    assert all(value > 0 for line in lines for value in line.ours.values)
    assert not [entry for entry in outcome if isinstance(entry, Note) and "another result" in entry.text]


def test_fresh_features_are_at_most_those_drawn(setup: reversible.Setup) -> None:
    rate = reversible.Sampler.rate
    fresh = reversible.fresh_features(setup, SMALL)
    assert 0.0 < fresh < rate + norm.isf(1e-4) * np.sqrt(rate / SMALL.populations)


def test_models_are_recalled(setup: reversible.Setup) -> None:
    crossed = reversible.cross(setup, "recall", SMALL, 0)
    assert 0 < crossed.tried[reversible.MOVED] <= crossed.tried[reversible.PROPOSED]


@pytest.mark.full
def test_row_13_compares_fits_with_reading(bench: rows.Bench) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    outcome = list(rows.row_chunks(bench))
    selection, search = lines_of(iter(outcome))
    assert "1 passes" in selection.what and selection.who == "reading as often"
    assert "2 passes" in search.what
    assert sum("CPU s" in e.text for e in outcome if isinstance(e, Note)) == 2
