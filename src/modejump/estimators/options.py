"""Options of the estimators, read once: every option is honoured or refused in one sentence."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from sklearn.utils import check_random_state

from modejump.core.errors import InputError
from modejump.data.coding import MISSING
from modejump.data.markers import MarkerSpec
from modejump.data.names import column_name
from modejump.features.logic.space import LogicSpace
from modejump.features.nonlinear.space import Space
from modejump.features.nonlinear.transforms import Transform, transforms
from modejump.likelihoods import FAMILIES, Family, resolve_family
from modejump.likelihoods.custom.batch import BatchLikelihood
from modejump.likelihoods.custom.own import StoredLikelihood
from modejump.priors.coefficients import CoefPrior, coef_prior_from_dict, resolve_coef_prior
from modejump.priors.complexity import ComplexityPrior
from modejump.priors.feature_priors import feature_prior_from_dict
from modejump.priors.features import FeaturePrior
from modejump.priors.logic_prior import LogicPrior
from modejump.priors.models import model_prior_from_dict, resolve_model_prior
from modejump.priors.sizes import SizePrior
from modejump.samplers.budget import Budget
from modejump.samplers.settings import Sampler

SELECTION = ("auto", "enumerate", "mjmcmc", "rgmjmcmc")
SEARCH = ("auto", "rgmjmcmc", "gmjmcmc")


@dataclass(frozen=True)
class Markers:
    """How binary covariates are read, as the estimators of logic regression take it."""

    coding: str = "binary"
    missing: str = "refuse"
    preselect: int | None = None

    def __post_init__(self) -> None:
        if self.preselect is not None and (not is_whole(self.preselect) or self.preselect < 1):
            raise InputError(
                f"preselect must be a whole number of at least 1, or None for our default; got {self.preselect!r}."
            )


@dataclass(frozen=True, eq=False)
class Options:
    """What an estimator was asked for.

    Attributes
    ----------
    family, link : Family, str
        Family of the response with its link, and the link as it was given.
    coef_prior, model_prior : prior objects
        The priors.
    algorithm : str
        The algorithm, or "auto".
    chains, n_jobs : int, optional
        Chains and workers, as they were given.
    budget : Budget, optional
        How long to run.
    seed : int
        Entropy of the random streams.
    settings : Sampler
        Weights of moves and kernels.
    always_in : tuple of str
        Terms that are in every model.
    groups : mapping, optional
        Columns that are one term.
    transforms : tuple of Transform
        G.
    space : Space or LogicSpace, optional
        Limits of the feature space; None for selection among given terms.
    markers : Markers, optional
        How binary covariates are read.
    missing : str
        What to do about missing values, where they are not those of binary covariates.
    noise_floor : float, optional
        What the measurement cannot resolve, in units of the response.
    """

    family: Family
    link: str | None
    coef_prior: CoefPrior
    model_prior: Any
    algorithm: str
    chains: int | None
    n_jobs: int | None
    budget: Budget | None
    seed: int
    settings: Sampler
    always_in: tuple[str, ...] = ()
    groups: Mapping[str, Sequence[str | int]] | None = None
    transforms: tuple[Transform, ...] = ()
    space: Space | LogicSpace | None = None
    markers: Markers | None = None
    missing: str = "refuse"
    noise_floor: float | None = None

    @classmethod
    def read(cls, estimator: Any) -> Options:
        """The options of an estimator, from its parameters."""
        given = estimator.get_params(deep=False)
        count_workers(given["n_jobs"])
        common = {
            "family": read_family(_or_student(given) if "family" in given else None, given["link"]),
            "link": given["link"],
            "coef_prior": resolve_coef_prior(given["coef_prior"]),
            "chains": _read_chains(given["chains"]),
            "n_jobs": given["n_jobs"],
            "budget": _read_budget(given["budget"]),
            "seed": draw_seed(given["random_state"]),
            "settings": Sampler.resolve(given["sampler"]),
        }
        if "space" not in given:
            algorithm = _read_algorithm(given["algorithm"], SELECTION)
            prior = resolve_model_prior(given["model_prior"])
            missing = _read_missing(given["missing"])
            return cls(model_prior=prior, algorithm=algorithm, groups=given["groups"], missing=missing, **common)
        common["algorithm"] = _read_algorithm(given["algorithm"], SEARCH)
        if "coding" in given:
            return cls(
                model_prior=_read_logic_prior(given["model_prior"]),
                space=_read_space(given["space"], LogicSpace),
                markers=Markers(given["coding"], given["missing"], given["preselect"]),
                **common,
            )
        functions = _read_transforms(given["transforms"])
        return cls(
            model_prior=_read_complexity_prior(given["model_prior"]),
            transforms=functions,
            space=_law_space(given["space"], functions, common["family"]),
            missing=_read_missing(given["missing"]),
            noise_floor=_read_noise_floor(given.get("noise_floor")),
            **common,
        )

    def with_priors(self, model_prior: Any = None, coef_prior: Any = None) -> Options:
        """The options with other priors, each as an estimator takes it; None leaves one as it is."""
        changed: dict[str, Any] = {}
        if coef_prior is not None:
            changed["coef_prior"] = resolve_coef_prior(coef_prior)
        if model_prior is not None:
            read = _read_complexity_prior if self.markers is None else _read_logic_prior
            changed["model_prior"] = (resolve_model_prior if self.space is None else read)(model_prior)
        return dataclasses.replace(self, **changed)

    def prior_of_features(self, spec: Any, laws: Any) -> Any:
        """The prior of the models as a problem has it: of very many columns, and of markers, with what it counts."""
        if isinstance(spec, MarkerSpec):
            return prior_of_all(self.model_prior, spec)
        return SizePrior(self.model_prior) if self.space is None and laws is not None else self.model_prior

    def params(self, classes: bool) -> dict[str, Any]:
        """Parameters of an estimator with these options; a classifier has no choice of the family."""
        shared = {
            "link": self.link,
            "coef_prior": self.coef_prior,
            "model_prior": self.model_prior,
            "algorithm": self.algorithm,
            "chains": self.chains,
            "n_jobs": self.n_jobs,
            "budget": self.budget,
            "random_state": self.seed,
            "sampler": None if self.settings == Sampler() else self.settings,
        }
        shared |= {} if classes else {"family": self.family if self.family.custom else self.family.spec}
        if self.space is None:
            return shared | {"always_in": self.always_in, "groups": self.groups, "missing": self.missing}
        if self.markers is not None:
            return shared | {"space": self.space, "always_in": self.always_in} | dataclasses.asdict(self.markers)
        shared |= {"always_in": self.always_in, "missing": self.missing}
        shared |= {} if classes else {"noise_floor": self.noise_floor}
        return shared | {"transforms": tuple(t.name for t in self.transforms), "space": self.space}

    def to_dict(self) -> dict[str, Any]:
        """The options as JSON holds them; files hold no functions, so transforms and likelihoods are names."""
        return {
            "family": repr(self.family) if self.family.custom else self.family.spec,
            "link": self.link,
            "coef_prior": self.coef_prior.to_dict(),
            "model_prior": self.model_prior.to_dict(),
            "algorithm": self.algorithm,
            "chains": None if self.chains is None else int(self.chains),
            "n_jobs": None if self.n_jobs is None else int(self.n_jobs),
            "budget": None if self.budget is None else dataclasses.asdict(self.budget),
            "seed": int(self.seed),
            "sampler": dataclasses.asdict(self.settings),
            "always_in": list(self.always_in),
            "groups": None if self.groups is None else {k: list(v) for k, v in self.groups.items()},
            "transforms": [t.name for t in self.transforms],
            "space": None if self.space is None else dataclasses.asdict(self.space),
            "markers": None if self.markers is None else dataclasses.asdict(self.markers),
            "missing": self.missing,
            "noise_floor": self.noise_floor,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], family: Family | None = None) -> Options:
        """Options from what ``to_dict`` returned, and the family where it is one of the user's own."""
        prior, space, markers = stored["model_prior"], stored["space"], stored["markers"]
        limits = Space if markers is None else LogicSpace
        return cls(
            family=family or resolve_family(stored["family"], stored["link"]),
            link=stored["link"],
            coef_prior=coef_prior_from_dict(stored["coef_prior"]),
            model_prior=model_prior_from_dict(prior) if space is None else feature_prior_from_dict(prior),
            algorithm=str(stored["algorithm"]),
            chains=stored["chains"],
            n_jobs=stored["n_jobs"],
            budget=None if stored["budget"] is None else Budget(**stored["budget"]),
            seed=int(stored["seed"]),
            settings=Sampler(**stored["sampler"]),
            always_in=tuple(stored["always_in"]),
            groups=stored["groups"],
            transforms=saved_transforms(stored["transforms"]),
            space=None if space is None else limits(**space),
            markers=None if markers is None else Markers(**markers),
            missing=str(stored["missing"]),
            noise_floor=stored.get("noise_floor"),
        )


def prior_of_all(prior: Any, spec: MarkerSpec) -> Any:
    """The prior with the number of markers that it counts: those that were left out as well."""
    return LogicPrior(spec.total) if isinstance(prior, LogicPrior) and prior.covariates is None else prior


def name_some(names: Sequence[str]) -> str:
    """The first names of a list, for a sentence."""
    return ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")


def is_whole(value: Any) -> bool:
    """Whether something is a whole number."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _or_student(given: Mapping[str, Any]) -> Any:
    """The family that a user asked for; None is that of laws."""
    return "student" if given["family"] is None else given["family"]


def read_family(family: Any, link: Any) -> Family:
    """The family of the response with its link, that of classes for None; or a likelihood of the user's own."""
    if link is not None and not isinstance(link, str):
        raise InputError(f"link must be a name such as 'log'; got {link!r}.")
    classes = [name for name, known in FAMILIES.items() if known.response == "class"]
    if family is None:
        return resolve_family(classes[0], link)
    if isinstance(family, StoredLikelihood):
        raise InputError(
            f"the model was read from a file, which holds no functions; set family to the likelihood {family!r} before "
            "fitting again."
        )
    if isinstance(family, Family) and family.custom:
        if link is not None:
            raise InputError("a likelihood of your own has no link; leave link out.")
        return family
    if family in classes:
        raise InputError(f"family {family!r} is for classes; use a classifier, such as BGLMClassifier.")
    if isinstance(family, Family):
        return resolve_family(family, link)
    if not isinstance(family, str) or family.partition("(")[0] not in FAMILIES:
        names = ", ".join(repr(name) for name in FAMILIES if name not in classes)
        raise InputError(f"unknown family {family!r}; choose {names}, an OwnLikelihood or a BatchLikelihood.")
    return resolve_family(family, link)


def _read_noise_floor(floor: Any) -> float | None:
    if floor is None:
        return None
    if not isinstance(floor, int | float | np.number) or isinstance(floor, bool) or not 0.0 <= float(floor) < np.inf:
        raise InputError(f"noise_floor must be a number of at least 0, in units of y, or None; got {floor!r}.")
    return float(floor)


def _read_algorithm(algorithm: Any, known: Sequence[str]) -> str:
    if algorithm in known:
        return str(algorithm)
    if algorithm in SEARCH:
        raise InputError(
            f"algorithm {algorithm!r} searches among features; use BGNLMRegressor or LogicRegressor, or a classifier."
        )
    if algorithm in SELECTION:
        raise InputError(
            f"algorithm {algorithm!r} selects among given terms; use BGLMRegressor or BGLMClassifier, or 'rgmjmcmc'."
        )
    close = difflib.get_close_matches(str(algorithm), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(map(repr, known))}."
    raise InputError(f"unknown algorithm {algorithm!r}; {hint}")


def saved_transforms(names: Sequence[str]) -> tuple[Transform, ...]:
    """The transforms of a saved model; InputError where the user has not added one of them."""
    for name in names:
        if name not in transforms:
            raise InputError(
                f"the saved model uses the transform {name!r}, which modejump.transforms does not have; add it before "
                "loading."
            )
    return tuple(transforms[name] for name in names)


def _read_transforms(given: Any) -> tuple[Transform, ...]:
    """G from names of transforms or of published sets, and from transforms themselves; each once, in order."""
    items = [given] if isinstance(given, str | Transform) else given
    if items is None or not isinstance(items, Iterable):
        raise InputError(f"transforms must be names such as ('sin', 'troot'), or 'G1' or 'G2'; got {given!r}.")
    chosen: dict[str, Transform] = {}
    for item in items:
        if isinstance(item, Transform):
            chosen[item.name] = item
        elif isinstance(item, str) and item in transforms.SETS:
            chosen |= {name: transforms[name] for name in transforms.set(item)}
        else:
            chosen[str(item)] = transforms[item]
    return tuple(chosen.values())


def _law_space(space: Any, functions: Sequence[Transform], family: Family) -> Space:
    """The space by its rules; without constants, where nobody asked for any and the likelihood is told texts alone."""
    given: Space = _read_space(space, Space)
    if given.constants is None and isinstance(family, BatchLikelihood):
        given = dataclasses.replace(given, constants=False)
    return given.resolved(t.name for t in functions)


def _read_space(space: Any, kind: type[Space] | type[LogicSpace]) -> Any:
    if space is not None and not isinstance(space, kind):
        raise InputError(f"space must be a modejump.{kind.__name__}, such as {kind.__name__}(size=10); got {space!r}.")
    return space or kind()


def _read_complexity_prior(prior: Any) -> ComplexityPrior:
    if prior is None or prior == ComplexityPrior.name:
        return ComplexityPrior()
    if not isinstance(prior, ComplexityPrior):
        raise InputError(
            f"model_prior of features must be a ComplexityPrior, such as ComplexityPrior('1/n'); got {prior!r}."
        )
    return prior


def _read_logic_prior(prior: Any) -> FeaturePrior:
    if prior is None or prior == LogicPrior.name:
        return LogicPrior()
    if not isinstance(prior, LogicPrior | ComplexityPrior):
        raise InputError(f"model_prior of logic features must be a LogicPrior or a ComplexityPrior; got {prior!r}.")
    return prior


def _read_missing(missing: Any) -> str:
    if missing not in MISSING:
        raise InputError(f"missing must be one of {', '.join(map(repr, MISSING))}; got {missing!r}.")
    return str(missing)


def _read_budget(budget: Any) -> Budget | None:
    if budget is not None and not isinstance(budget, Budget):
        raise InputError(f"budget must be a modejump.Budget, such as Budget(steps=100_000); got {budget!r}.")
    return budget


def _read_chains(chains: Any) -> int | None:
    if chains is not None and (not is_whole(chains) or chains < 1):
        raise InputError(f"chains must be a whole number of at least 1; got {chains!r}.")
    return None if chains is None else int(chains)


def count_workers(n_jobs: Any) -> int:
    """Number of workers, by joblib's rules for n_jobs."""
    if n_jobs is not None and not is_whole(n_jobs):
        raise InputError(f"n_jobs must be a whole number or None; got {n_jobs!r}.")
    if n_jobs == 0:
        raise InputError("n_jobs is 0, which means no worker; give 1 or more, or -1 for all cores.")
    try:
        return int(joblib.effective_n_jobs(n_jobs))
    except TimeoutError:
        raise InputError(
            "the cluster of joblib's active backend has no worker; start workers, or let joblib.parallel_config wait "
            "longer (wait_for_workers_timeout)."
        ) from None


def draw_seed(random_state: Any) -> int:
    """Entropy of the sampler's SeedSequence.

    A whole number is used as it is; a generator gives one draw; None gives fresh entropy from the operating system.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if is_whole(random_state):
        if random_state < 0:
            raise InputError(f"random_state is {random_state}; give a whole number of at least 0.")
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise InputError(
            f"random_state must be None, a whole number or a NumPy generator; got {random_state!r}."
        ) from None


def read_always_in(always_in: Any, terms: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Names of the terms that are in every model, from names of terms or positions of columns.

    Parameters
    ----------
    always_in : str, int, or sequence of them
        As given to the estimator.
    terms : sequence of str
        Names of the terms.
    columns : sequence of str
        Names of the columns of the table.
    """
    given = [always_in] if isinstance(always_in, str) or is_whole(always_in) else list(always_in or ())
    names: list[str] = []
    for item in given:
        name = column_name(int(item), columns, "always_in") if is_whole(item) else str(item)
        if name not in terms and name in columns:
            raise InputError(f"always_in names {name!r}, which is part of a group; name the group instead.")
        if name not in terms:
            raise InputError(
                f"always_in names {name!r}, which is not a term; the terms are {', '.join(list(terms)[:8])}."
            )
        if name not in names:
            names.append(name)
    if len(names) == len(terms):
        raise InputError("every term is always in, so there is nothing to select; leave some out of always_in.")
    return tuple(names)
