"""Textbook laws of one to five variables: formulas, ranges and units, and tables drawn from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.experiments.ledger import run_seed

ROWS = 200


class Quantity(NamedTuple):
    """A measured quantity: its range, its unit, and whether it is spread evenly over decades."""

    low: float
    high: float
    unit: str = ""
    decades: bool = False


@dataclass(frozen=True)
class TextbookLaw:
    """A law as textbooks have it, with the constants of nature in it as numbers."""

    name: str  # a short one
    title: str  # the name people know it by
    field: str  # where it belongs
    formula: str  # the law; numbers in it are hidden from whoever looks for it
    terms: int  # summands of the formula once products are multiplied out, a constant apart
    unit: str  # unit of what the law explains
    quantities: Mapping[str, Quantity]  # the variables

    def values(self, table: pd.DataFrame) -> np.ndarray:
        """What the law says of each row, without noise."""
        return np.asarray(table.eval(self.formula.replace("^", "**"), engine="python"), dtype=np.float64)

    def rows(self, rng: np.random.Generator, n: int = ROWS) -> pd.DataFrame:
        """Independent variables, uniform over their ranges or over the decades of these."""
        table = {}
        for name, (low, high, _, decades) in self.quantities.items():
            u = rng.uniform(size=n)
            table[name] = low * (high / low) ** u if decades else low + (high - low) * u
        return pd.DataFrame(table)


def simulate_law(name: str, n: int = ROWS, noise: float = 0.0, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw a table from one of the textbook laws.

    Parameters
    ----------
    name : str
        Name of the law, a key of ``PHYSICS_LAWS``.
    n : int
        Number of rows.
    noise : float
        Standard deviation of the Gaussian noise, as a share of that of the response. One seed gives the same rows for
        every noise.
    seed : int
        Seed of the draws.

    Returns
    -------
    X : DataFrame
        The variables.
    y : ndarray
        The response.

    Examples
    --------
    >>> X, y = simulate_law("kepler", n=3)
    >>> list(X.columns), y.shape
    (['a', 'M'], (3,))
    """
    if name not in PHYSICS_LAWS:
        raise InputError(f"unknown law {name!r}; choose one of {', '.join(PHYSICS_LAWS)}.")
    if noise < 0.0 or n < 2:
        raise InputError(f"a table of {n} rows with noise {noise:g} cannot be drawn; give two rows and no less than 0.")
    law = PHYSICS_LAWS[name]
    rng = np.random.default_rng(run_seed(seed, name))
    X = law.rows(rng, n)
    y = law.values(X)
    return X, y + noise * np.std(y) * rng.standard_normal(n)


Q = Quantity
_TABLE: dict[str, list[tuple[str, str, str, int, str, dict[str, Quantity]]]] = {
    "mechanics": [
        ("gravity", "Newton's law of gravitation", "6.674*m1*m2/r^2", 1, "N",
         {"m1": Q(1, 10, "kg"), "m2": Q(1, 10, "kg"), "r": Q(1, 5, "m")}),
        ("pendulum", "period of a pendulum", "6.2832*sqrt(L/g)", 1, "s",
         {"L": Q(0.1, 3, "m"), "g": Q(1.6, 25, "m/s^2")}),
        ("kepler", "Kepler's third law", "365.25*a^(3/2)/sqrt(M)", 1, "day",
         {"a": Q(0.05, 30, "au", True), "M": Q(0.1, 10, "kg", True)}),
        ("relativistic_mass", "mass of a fast body", "m/sqrt(1 - v^2/8.98755)", 1, "kg",
         {"m": Q(1, 5, "kg"), "v": Q(0.1, 2.8, "m/s")}),
        ("velocities", "relativistic addition of velocities", "(u + v)/(1 + u*v/8.98755)", 2, "m/s",
         {"u": Q(0.2, 2.9, "m/s"), "v": Q(0.2, 2.9, "m/s")}),
        ("damped", "damped oscillation", "A*exp(-0.31*t)*cos(2.1*t)", 1, "m",
         {"A": Q(1, 3, "m"), "t": Q(0, 8, "s")}),
        ("projectile", "height of a projectile", "v*t*sin(angle) - 4.905*t^2", 2, "m",
         {"v": Q(5, 40, "m/s"), "t": Q(0, 4, "s"), "angle": Q(0.2, 1.4, "rad")}),
        ("bernoulli", "Bernoulli's equation", "p + 0.5*rho*v^2 + 9.81*rho*h", 3, "Pa",
         {"p": Q(1e4, 1e5, "Pa"), "rho": Q(600, 1400, "kg/m^3"), "v": Q(1, 12, "m/s"), "h": Q(0, 8, "m")}),
    ],
    "optics": [
        ("bragg", "Bragg's law", "2*d*sin(angle)/k", 1, "nm",
         {"d": Q(0.1, 1, "nm"), "angle": Q(0.1, 1.4, "rad"), "k": Q(1, 5)}),
        ("malus", "Malus's law", "I*cos(angle)^2", 1, "W/m^2",
         {"I": Q(1, 10, "W/m^2"), "angle": Q(0, 3, "rad")}),
        ("lens", "thin lens", "1/(1/a + 1/b)", 1, "m",
         {"a": Q(0.1, 5, "m"), "b": Q(0.1, 5, "m")}),
        ("beam", "intensity of a Gaussian beam", "0.63662*P*exp(-2*r^2/w^2)/w^2", 1, "W/mm^2",
         {"P": Q(1, 5, "W"), "r": Q(0, 3, "mm"), "w": Q(0.8, 3, "mm")}),
        ("snell", "Snell's law", "arcsin(n1*sin(angle)/n2)", 1, "rad",
         {"n1": Q(1, 1.4), "angle": Q(0.1, 1.5, "rad"), "n2": Q(1.45, 2.4)}),
        ("interference", "interference of two beams", "I1 + I2 + 2*sqrt(I1*I2)*cos(phase)", 3, "W/m^2",
         {"I1": Q(1, 5, "W/m^2"), "I2": Q(1, 5, "W/m^2"), "phase": Q(0, 6.28, "rad")}),
        ("cauchy", "Cauchy's dispersion", "A + B/wave^2", 2, "",
         {"A": Q(1.4, 1.8), "B": Q(0.003, 0.015, "um^2"), "wave": Q(0.2, 0.8, "um")}),
        ("lensmaker", "lensmaker's equation", "(n - 1)*(1/R1 - 1/R2)", 4, "1/m",
         {"n": Q(1.3, 2), "R1": Q(0.1, 1, "m"), "R2": Q(0.1, 1, "m")}),
    ],
    "thermodynamics": [
        ("gas", "ideal gas", "8.314*n*T/V", 1, "Pa",
         {"n": Q(0.5, 5, "mol"), "T": Q(250, 400, "K"), "V": Q(0.01, 0.1, "m^3")}),
        ("adiabat", "adiabatic compression of a monatomic gas", "T*(V1/V2)^(2/3)", 1, "K",
         {"T": Q(250, 400, "K"), "V1": Q(1, 5, "m^3"), "V2": Q(1, 5, "m^3")}),
        ("planck", "Planck's law of radiation", "0.01475*f^3/(exp(47.9924*f/T) - 1)", 1, "W/m^2/THz",
         {"f": Q(10, 1000, "THz"), "T": Q(2000, 9000, "K")}),
        ("maxwell", "Maxwell's distribution of speeds", "(m/T)^(3/2)*v^2*exp(-60.136*m*v^2/T)", 1, "s/km",
         {"m": Q(2, 44, "g/mol"), "T": Q(200, 1000, "K"), "v": Q(0.1, 1.5, "km/s")}),
        ("antoine", "Antoine's vapour pressure of water", "exp(18.5873 - 3984.92/(T - 39.724))", 1, "Pa",
         {"T": Q(280, 420, "K")}),
        ("waals", "van der Waals' gas", "0.08314*T/(V - 0.0427) - 3.64/V^2", 2, "bar",
         {"T": Q(280, 400, "K"), "V": Q(0.1, 1.5, "l/mol")}),
        ("cooling", "Newton's law of cooling", "T0 + (T1 - T0)*exp(-0.12*t)", 3, "K",
         {"T0": Q(270, 300, "K"), "T1": Q(320, 370, "K"), "t": Q(0, 30, "min")}),
        ("entropy", "entropy of an ideal gas", "8.314*n*log(V2/V1) + 12.471*n*log(T2/T1)", 2, "J/K",
         {"n": Q(1, 5, "mol"), "V1": Q(1, 5, "l"), "V2": Q(1, 5, "l"), "T1": Q(200, 600, "K"), "T2": Q(200, 600, "K")}),
    ],
    "electromagnetism": [
        ("coulomb", "Coulomb's law", "0.079577*q1*q2/(eps*r^2)", 1, "N",
         {"q1": Q(1, 5, "C"), "q2": Q(1, 5, "C"), "eps": Q(1, 5, "F/m"), "r": Q(1, 5, "m")}),
        ("capacitor", "energy of a capacitor", "0.5*C*V^2", 1, "J",
         {"C": Q(1, 10, "F"), "V": Q(1, 12, "V")}),
        ("solenoid", "inductance of a solenoid", "1.25664*N^2*A/l", 1, "uH",
         {"N": Q(50, 500), "A": Q(0.5, 5, "mm^2"), "l": Q(5, 50, "mm")}),
        ("oscillator", "driven charge", "q*E/(m*(w0^2 - w^2))", 1, "m",
         {"q": Q(1, 3, "C"), "E": Q(1, 3, "V/m"), "m": Q(1, 3, "kg"), "w0": Q(3, 5, "1/s"), "w": Q(1, 2, "1/s")}),
        ("impedance", "impedance of a series circuit", "sqrt(R^2 + (w*L - 1/(w*C))^2)", 1, "ohm",
         {"R": Q(0.5, 5, "ohm"), "w": Q(0.5, 3, "1/s"), "L": Q(0.5, 3, "H"), "C": Q(0.2, 2, "F")}),
        ("paramagnet", "magnetisation of a paramagnet", "n*mu*tanh(0.6717*mu*B/T)", 1, "A/m",
         {"n": Q(1, 5, "1/m^3"), "mu": Q(1, 4, "J/T"), "B": Q(1, 10, "T"), "T": Q(1, 20, "K")}),
        ("lorentz_force", "Lorentz force", "q*(E + v*B*sin(angle))", 2, "N",
         {"q": Q(1, 5, "C"), "E": Q(1, 5, "V/m"), "v": Q(1, 5, "m/s"), "B": Q(1, 5, "T"), "angle": Q(0, 3.1, "rad")}),
        ("charging", "charging of a capacitor", "V*(1 - exp(-t/(R*C)))", 2, "V",
         {"V": Q(1, 12, "V"), "t": Q(0.1, 10, "s"), "R": Q(1, 5, "ohm"), "C": Q(0.5, 2, "F")}),
    ],
    "chemistry": [
        ("faraday", "Faraday's law of electrolysis", "0.010364*I*t*M/z", 1, "mg",
         {"I": Q(0.1, 5, "A"), "t": Q(10, 100, "s"), "M": Q(20, 200, "g/mol"), "z": Q(1, 4)}),
        ("diffusion", "Stokes-Einstein relation", "0.0007324*T/(eta*r)", 1, "m^2/s",
         {"T": Q(270, 370, "K"), "eta": Q(0.3, 2, "mPa*s"), "r": Q(0.1, 5, "nm")}),
        ("rate", "rate of a reaction of order 3/2", "k*A*sqrt(B)", 1, "mol/l/s",
         {"k": Q(0.1, 2, "(l/mol)^0.5/s"), "A": Q(0.1, 2, "mol/l"), "B": Q(0.1, 2, "mol/l")}),
        ("arrhenius", "Arrhenius' law", "A*exp(-120.272*E/T)", 1, "1/s",
         {"A": Q(1, 10, "1/s"), "E": Q(5, 20, "kJ/mol"), "T": Q(280, 600, "K")}),
        ("enzyme", "Michaelis-Menten kinetics", "V*S/(S + 1.98)", 1, "mol/l/s",
         {"V": Q(1, 10, "mol/l/s"), "S": Q(0.1, 10, "mol/l")}),
        ("bromide", "formation of hydrogen bromide", "k*H*Br^(3/2)/(Br + 0.12*P)", 1, "mol/l/s",
         {"k": Q(0.5, 2, "(l/mol)^0.5/s"), "H": Q(0.1, 2, "mol/l"), "Br": Q(0.1, 2, "mol/l"),
          "P": Q(0.1, 20, "mol/l")}),
        ("nernst", "Nernst equation", "E0 - 0.000086173*T*log(Q)/z", 2, "V",
         {"E0": Q(0.1, 1.2, "V"), "T": Q(270, 370, "K"), "Q": Q(1e-6, 1e6, "", True), "z": Q(1, 3)}),
        ("lennard_jones", "Lennard-Jones potential", "4*e*((s/r)^12 - (s/r)^6)", 2, "kJ/mol",
         {"e": Q(0.1, 2, "kJ/mol"), "s": Q(0.25, 0.35, "nm"), "r": Q(0.33, 0.7, "nm")}),
    ],
    "biology": [
        ("poiseuille", "Poiseuille's law", "0.3927*dp*r^4/(eta*l)", 1, "ml/s",
         {"dp": Q(1, 10, "Pa"), "r": Q(0.5, 2, "mm"), "eta": Q(1, 5, "mPa*s"), "l": Q(10, 100, "mm")}),
        ("kleiber", "Kleiber's law of metabolism", "3.4*M^(3/4)", 1, "W",
         {"M": Q(0.02, 4000, "kg", True)}),
        ("surface", "Du Bois' body surface", "0.007184*W^0.425*H^0.725", 1, "m^2",
         {"W": Q(5, 120, "kg"), "H": Q(60, 200, "cm")}),
        ("hill", "Hill's oxygen saturation", "1/(1 + (26.6/p)^2.7)", 1, "",
         {"p": Q(2, 110, "mmHg")}),
        ("logistic", "logistic growth", "K/(1 + 19*exp(-r*t))", 1, "",
         {"K": Q(1, 10), "r": Q(0.2, 1.2, "1/day"), "t": Q(0, 12, "day")}),
        ("predator", "Lotka-Volterra growth of prey", "r*x - a*x*y", 2, "1/day",
         {"r": Q(0.2, 2, "1/day"), "a": Q(0.01, 0.2, "1/day"), "x": Q(1, 50), "y": Q(1, 20)}),
        ("bateman", "Bateman's concentration of a drug", "D*ka*(exp(-ke*t) - exp(-ka*t))/(V*(ka - ke))", 2, "mg/l",
         {"D": Q(50, 500, "mg"), "ka": Q(0.8, 3, "1/h"), "ke": Q(0.05, 0.5, "1/h"), "t": Q(0, 12, "h"),
          "V": Q(10, 60, "l")}),
        ("fitness", "mean fitness of a population", "p^2*w1 + 2*p*(1 - p)*w2 + (1 - p)^2*w3", 6, "",
         {"p": Q(0, 1), "w1": Q(0.5, 2), "w2": Q(0.5, 2), "w3": Q(0.5, 2)}),
    ],
}  # fmt: skip
PHYSICS_LAWS: Mapping[str, TextbookLaw] = {
    name: TextbookLaw(name, title, field, formula, terms, unit, quantities)
    for field, laws in _TABLE.items()
    for name, title, formula, terms, unit, quantities in laws
}
