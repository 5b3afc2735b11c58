"""Textbook laws: their tables, when one counts as recovered, and the command."""

import json
import math
import re

import numpy as np
import pytest
import sympy

from modejump import InputError, fit_law
from modejump.cli import main
from modejump.experiments.ledger import run_study
from modejump.experiments.physics import peers, physics_study
from modejump.experiments.physics.recovery import LEAST, Formula, left_by_features, refit
from modejump.experiments.physics_laws import PHYSICS_LAWS, simulate_law
from modejump.features.laws.language import Laws
from modejump.features.laws.powers import LAW_TRANSFORMS
from modejump.features.laws.units import packed_units
from modejump.features.nonlinear.expression import Feature
from modejump.features.nonlinear.language import Nonlinear
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import transforms


def columns_of(frame):
    return {name: frame[name].to_numpy() for name in frame}


# --- the laws -----------------------------------------------------------------------------------------------------


def test_there_are_laws_of_one_to_five_variables_in_each_field():
    assert len(PHYSICS_LAWS) >= 40
    assert {len(law.quantities) for law in PHYSICS_LAWS.values()} == {1, 2, 3, 4, 5}
    for field in {law.field for law in PHYSICS_LAWS.values()}:
        assert sum(law.field == field for law in PHYSICS_LAWS.values()) >= 5


@pytest.mark.parametrize("name", PHYSICS_LAWS)
def test_tables_follow_the_law(name):
    law = PHYSICS_LAWS[name]
    X, y = simulate_law(name)
    assert np.isfinite(y).all() and np.std(y) > 0 and list(X) == list(law.quantities)
    assert all(q.low <= X[c].min() and X[c].max() <= q.high for c, q in law.quantities.items())
    # An independent reading of the formula.
    symbols = {c: sympy.Symbol(c, positive=True) for c in X}
    formula = sympy.sympify(law.formula.replace("^", "**").replace("arcsin", "asin"), locals=symbols)
    np.testing.assert_allclose(sympy.lambdify(list(symbols.values()), formula)(*X.to_numpy().T), y, rtol=1e-9)
    expanded = sympy.expand(formula, power_exp=False, power_base=False, log=False)
    assert law.terms == sum(bool(term.free_symbols) for term in sympy.Add.make_args(expanded))


def test_noise_leaves_the_rows_as_they_are_and_has_the_size_asked_for():
    X, y = simulate_law("enzyme", 4000, seed=3)
    noisy_X, noisy = simulate_law("enzyme", 4000, noise=0.05, seed=3)
    assert noisy_X.equals(X)
    size = np.std(noisy - y) / np.std(y)
    # The standard deviation of 4000 draws has a relative error of 1/sqrt(8000).
    assert abs(size - 0.05) < 4 * 0.05 / math.sqrt(8000)
    assert not np.array_equal(simulate_law("enzyme", seed=4)[1], y[:200])


@pytest.mark.parametrize("asked", [{"name": "nothing"}, {"name": "enzyme", "noise": -1.0}, {"name": "enzyme", "n": 1}])
def test_tables_that_cannot_be_drawn(asked):
    with pytest.raises(InputError):
        simulate_law(**asked)


@pytest.mark.parametrize("name", PHYSICS_LAWS)
def test_units_are_known(name):
    pytest.importorskip("pint")
    law = PHYSICS_LAWS[name]
    packed_units(list(law.quantities), {c: q.unit for c, q in law.quantities.items()}, law.unit)


# Terms of the laws that have constants inside, or that are spelt in another way; the language has no arcsin, and for
# tanh it needs more symbols than a feature may have.
SPELLINGS = {
    "relativistic_mass": "m/sqrt(v^2 + c0)",
    "velocities": "(u + v)/(u*v + c0)",
    "damped": "A*exp(c0*t)*cos(c1*t)",
    "projectile": "v*t*sin(angle); t^2",
    "bernoulli": "p; rho*v^2; rho*h",
    "lens": "a*b/(a + b)",
    "beam": "P*exp(c0*r^2/w^2)/w^2",
    "interference": "I1; I2; sqrt(I1*I2)*cos(phase)",
    "cauchy": "A; B/wave^2",
    "lensmaker": "(n - 1)*(1/R1 - 1/R2)",
    "planck": "f^3/(exp(c0*f/T) - 1)",
    "maxwell": "(m/T)^(3/2)*v^2*exp(c0*m*v^2/T)",
    "antoine": "exp(c0/(T + c1))",
    "waals": "T/(V + c0); 1/V^2",
    "cooling": "T0; (T1 - T0)*exp(c0*t)",
    "entropy": "n*log(V2/V1); n*log(T2/T1)",
    "paramagnet": "n*mu*tanh(c0*mu*B/T)",
    "lorentz_force": "q*E; q*v*B*sin(angle)",
    "arrhenius": "A*exp(c0*E/T)",
    "enzyme": "V*S/(S + c0)",
    "bromide": "k*H*Br^(3/2)/(Br + c0*P)",
    "nernst": "E0; T*log(Q)/z",
    "lennard_jones": "e*(s/r)^c0*((s/r)^c1 - 1)",
    "kleiber": "M^c0",
    "surface": "W^c0*H^c1",
    "hill": "1/(p^c0 + c1)",
    "logistic": "K/(exp(-r*t) + c0)",
    "predator": "r*x; a*x*y",
    "fitness": "p^2*w1; p*(1 - p)*w2; (1 - p)^2*w3",
}
TOO_LONG = {"impedance"}


@pytest.mark.parametrize("name", [name for name in PHYSICS_LAWS if name != "snell"])
def test_the_language_says_the_law_and_fits_its_constants(name):
    law = PHYSICS_LAWS[name]
    X, y = simulate_law(name)
    terms = (SPELLINGS.get(name) or re.sub(r"^[0-9.]+\*", "", law.formula)).split("; ")
    assert 1.0 - fit_law(" + ".join(terms), X, y).r2 < LEAST
    language = Laws(list(X), [transforms[name] for name in LAW_TRANSFORMS], Space())
    features = [language.parse(term) for term in terms]
    assert all(map(language.contains, features)) == (name not in TOO_LONG)
    assert len(features) <= law.terms


# --- recovered or not ---------------------------------------------------------------------------------------------


def test_constants_are_fitted_again_from_where_noise_left_them():
    table = columns_of(PHYSICS_LAWS["damped"].rows(np.random.default_rng(1), 300))
    y = PHYSICS_LAWS["damped"].values(PHYSICS_LAWS["damped"].rows(np.random.default_rng(1), 300))

    def column(c):
        return (table["A"] * np.exp(c[0] * table["t"]) * np.cos(c[1] * table["t"]))[:, None]

    left, constants = refit(column, np.array([-0.25, 2.2]), y)
    assert left < LEAST
    np.testing.assert_allclose(constants, [-0.31, 2.1], rtol=1e-6)
    # A stand-in with as many constants fits, and is not the law.
    left, _ = refit(lambda c: (table["A"] * np.exp(c[0] * table["t"]) * np.cos(c[1] + 2.0 * table["t"]))[:, None],
                    np.array([-0.25, 0.1]), y)  # fmt: skip
    assert LEAST < left < 1.0
    assert refit(lambda c: np.log(-table["A"])[:, None], np.empty(0), y)[0] > 1.0


def test_a_model_of_features_is_the_law_or_is_not():
    law = PHYSICS_LAWS["kepler"]
    frame = law.rows(np.random.default_rng(2), 300)
    table, y = columns_of(frame), law.values(frame)
    language = Nonlinear(tuple(frame), [transforms["pm05"], transforms["p05"]], Space())
    same, other = Feature("a*p05(a)*pm05(M)"), Feature("a*pm05(M)")
    assert left_by_features([same], language, {}, table, y) < 1e-20
    assert left_by_features([other], language, {}, table, y) > LEAST
    assert left_by_features([], language, {}, table, y) == 1.0


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("((-0.0001) + (1.01 * ((2.5 * V) * ((1.1 * S) / (2.3 + (1.2 * S))))))", 1),
        ("mul(V, div(S, add(S, 2.1)))", 1),
        # Spelt as V - 2 V/(S + 2): one term more than the law has.
        ("V - (1.9 * V / (S + 2.1))", 2),
        ("V * log(S)", None),
        # Roots are of absolute values there.
        ("sqrt(((-2.0) * V) * V) * S / (S + 2.1)", 1),
        ("square(sqrt(V)) * S * inv(S + 2.0) + 0.1 * V", 2),
    ],
)
def test_formulas_of_other_programs(text, terms):
    law = PHYSICS_LAWS["enzyme"]
    frame = law.rows(np.random.default_rng(3), 300)
    table, y = columns_of(frame), law.values(frame)
    formula = Formula(text)
    left, constants = formula.left(table, y)
    assert (left < LEAST) == (terms is not None)
    if text.startswith("square"):
        # The further term has vanished once its coefficient is fitted.
        assert formula.terms(table, constants) == 1
    elif terms is not None:
        assert formula.terms(table, constants) == terms


# --- the study ----------------------------------------------------------------------------------------------------


def fake_peer(texts):
    return lambda name, X, y, seconds, seed, workers: texts[len(X.columns)]


def test_runs_are_kept_and_rates_are_counted(tmp_path, monkeypatch):
    texts = {2: "V*S/(S + 2.5)", 3: "m1*m2/r"}
    monkeypatch.setattr(physics_study, "search_by", fake_peer(texts))
    study = physics_study.PhysicsStudy(["enzyme", "gravity"], [0.0, 0.05], ["operon"], 2, 1.0, 7, 1)
    rows = run_study(study, tmp_path / "runs.json")
    assert len(rows) == 8 and {row["seed"] for row in rows} == {7, 8}
    assert physics_study.recovery_rates(rows, "law") == {("enzyme",): (1.0, 4), ("gravity",): (0.0, 4)}
    # What was run is not run again.
    monkeypatch.setattr(physics_study, "search_by", fake_peer({}))
    held = json.loads((tmp_path / "runs.json").read_text())
    assert run_study(study, tmp_path / "runs.json") == held["rows"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--laws", "nothing"], "unknown --laws 'nothing'"),
        (["--noise", "-1"], "numbers of at least 0"),
        (["--seconds", "1,2"], "give one for physics"),
        (["--budget", "seconds=1"], "--budget does not go with physics"),
    ],
)
def test_bad_options_of_the_command(options, says, capsys):
    assert main(["reproduce", "physics", *options]) == 2
    assert says in capsys.readouterr().err


def test_options_of_physics_go_with_physics_alone(capsys):
    assert main(["reproduce", "accuracy", "--laws", "enzyme"]) == 2
    assert "--laws does not go with accuracy" in capsys.readouterr().err


def test_peers_that_are_not_installed(monkeypatch, capsys):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    assert main(["reproduce", "physics", "--peers"]) == 2
    assert "pip install pyoperon gplearn" in capsys.readouterr().err


def test_the_command(tmp_path, capsys):
    asked = ["reproduce", "physics", "--laws", "capacitor", "--noise", "0.01", "--seconds", "3", "--seed", "1"]
    plot, runs = tmp_path / "recovery.png", tmp_path / "runs.json"
    assert main([*asked, "--json", str(runs), "--plot", str(plot)]) == 0
    shown = capsys.readouterr().out
    assert "electromagnetism" in shown and plot.stat().st_size > 1000
    (row,) = json.loads(runs.read_text())["rows"]
    # A product of whole powers is in every language of features.
    assert row["recovered"] and row["terms"] == 1 and row["probability"] > 0.9 and row["noise"] == 0.01
