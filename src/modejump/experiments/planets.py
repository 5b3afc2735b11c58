"""Observed planets, and simulated ones that obey Kepler's third law and a law of density."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pandas as pd

from modejump.core.numbers import whole_number

DAYS_PER_YEAR = 365.25
# Shortest and longest period, in days: five decades.
PERIODS = (0.5, 50_000.0)
SUN_TEMPERATURE = 5772.0
# Standard errors of the measured axis, in astronomical units, and of the measured mass, in Jupiter's.
AXIS_ERROR = 0.002
MASS_ERROR = 0.003


def load_exoplanets() -> pd.DataFrame:
    """Read the planets of the Open Exoplanet Catalogue that have no missing values.

    The catalogue is free to use. Densities were computed from masses and radii.

    Returns
    -------
    DataFrame
        223 rows. ``PlanetaryMassJpt``, ``RadiusJpt`` and ``PlanetaryDensJpt`` are in units of Jupiter's,
        ``PeriodDays`` in days, ``SemiMajorAxisAU`` in astronomical units, ``HostStarMassSlrMass`` and
        ``HostStarRadiusSlrRad`` in units of the Sun's, ``HostStarMetallicity`` in dex and ``HostStarTempK`` in
        kelvin; ``TypeFlag`` is 0 for the planet of a single star and 2 for one in a binary;
        ``Eccentricity`` has no unit.

    Examples
    --------
    >>> load_exoplanets().shape
    (223, 11)
    """
    with resources.files("modejump.experiments").joinpath("data/exoplanets.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def simulate_planets(n: int = 200, seed: int = 1) -> pd.DataFrame:
    """Simulate a catalogue of planets and their stars.

    A star has a mass :math:`M` between 0.4 and 1.8 solar masses. On the main sequence its radius goes as
    :math:`M^{0.8}` and its luminosity as :math:`M^{3.5}`, which with :math:`L \\propto R^2 T^4` gives the
    temperature :math:`T \\propto M^{0.475}`; age and composition scatter radii by 8 % and temperatures by 3 %,
    so neither stands in for the mass. Metallicities are normal about the Sun's.

    A planet's period :math:`P` is log-uniform from half a day to 50 000 days, and its semi-major axis follows
    from Kepler's third law :math:`a^3 = M P^2` (astronomical units, solar masses, years). Its radius
    :math:`R` is log-uniform from 0.5 to 1.6 of Jupiter's and its density :math:`\\rho` log-normal about
    Jupiter's, independent of the radius; its mass is :math:`R^3 \\rho` in Jupiter's units. Eccentricities are
    Beta(0.9, 3), the usual description of observed ones.

    Axes are measured with a standard error of 0.002 astronomical units, as by an instrument of fixed angular
    resolution, and masses with one of 0.003 of Jupiter's; the other columns are exact.

    Parameters
    ----------
    n : int
        Number of planets.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    DataFrame
        One row for each planet: ``SemiMajorAxis`` (astronomical units), ``Period`` (days), ``Mass``, ``Radius``
        and ``Density`` (of Jupiter), ``Eccentricity``, ``StarMass`` and ``StarRadius`` (of the Sun), ``StarTemp``
        (kelvin) and ``StarMetallicity`` (dex).

    Examples
    --------
    >>> planets = simulate_planets(100)
    >>> law = (planets["StarMass"] * (planets["Period"] / 365.25) ** 2) ** (1 / 3)
    >>> bool((planets["SemiMajorAxis"] - law).abs().max() < 0.01)
    True
    """
    n = whole_number(n, "n", least=1)
    rng = np.random.default_rng(seed)
    star_mass = rng.uniform(0.4, 1.8, n)
    star_radius = star_mass**0.8 * np.exp(0.08 * rng.standard_normal(n))
    star_temperature = SUN_TEMPERATURE * star_mass**0.475 * np.exp(0.03 * rng.standard_normal(n))
    period = np.exp(rng.uniform(np.log(PERIODS[0]), np.log(PERIODS[1]), n))
    axis = np.cbrt(star_mass * (period / DAYS_PER_YEAR) ** 2)
    radius = np.exp(rng.uniform(np.log(0.5), np.log(1.6), n))
    density = np.exp(0.35 * rng.standard_normal(n))
    return pd.DataFrame(
        {
            "SemiMajorAxis": axis + AXIS_ERROR * rng.standard_normal(n),
            "Period": period,
            "Mass": radius**3 * density + MASS_ERROR * rng.standard_normal(n),
            "Radius": radius,
            "Density": density,
            "Eccentricity": rng.beta(0.9, 3.0, n),
            "StarMass": star_mass,
            "StarRadius": star_radius,
            "StarTemp": star_temperature,
            "StarMetallicity": 0.2 * rng.standard_normal(n),
        }
    )
