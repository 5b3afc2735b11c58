"""Genotypes in PLINK's files .bed, .bim and .fam, read some variants at a time by bed-reader."""

from __future__ import annotations

import csv
import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modejump.core.errors import InputError
from modejump.data.markers import MISSING

_MAGIC, _BY_VARIANT, _BY_SAMPLE = b"\x6c\x1b", b"\x01", b"\x00"
_BIM = ("chromosome", "name", "distance", "position", "allele", "other")
_FAM = ("family", "sample", "father", "mother", "sex", "phenotype")
# What stands for a missing phenotype, as PLINK reads it.
_NO_PHENOTYPE = ("-9", "NA", "na", "NaN", "nan")


@dataclass(frozen=True, eq=False)
class PlinkGenotypes:
    """Genotypes of PLINK's files, which are read when asked for.

    Attributes
    ----------
    path : Path
        The .bed file.
    names : tuple of str
        The variants; one without a name (".") is called ``chromosome:position``. Behind them the columns that
        :meth:`beside` added.
    chromosome, position : Series
        Chromosome (text) and base-pair position (whole number) of each variant, by its name.
    samples : tuple of str
        Individual identifiers of the rows.
    phenotypes : ndarray of shape (rows,)
        Phenotypes of the .fam file, NaN where they are missing: -9 or NA, and 0 where all others are 1 or 2.

    Examples
    --------
    >>> import tempfile
    >>> from bed_reader import to_bed
    >>> folder = tempfile.TemporaryDirectory()
    >>> genotypes = np.array([[0, 1], [2, 1], [1, 0]], np.int8)
    >>> known = {"sid": ["rs1", "rs2"], "pheno": ["1.5", "0.2", "3.1"]}
    >>> to_bed(f"{folder.name}/study.bed", genotypes, properties=known)
    >>> study = read_plink(f"{folder.name}/study.bed").beside(pd.DataFrame({"age": [40.0, 51.0, 33.0]}))
    >>> study.names, study.rows
    (('rs1', 'rs2', 'age'), 3)
    >>> folder.cleanup()
    """

    path: Path
    names: tuple[str, ...]
    chromosome: pd.Series
    position: pd.Series
    samples: tuple[str, ...]
    phenotypes: np.ndarray
    _bed: Any
    _variants: np.ndarray
    _individuals: np.ndarray
    _beside: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """Number of individuals."""
        return len(self.samples)

    @property
    def phenotype(self) -> np.ndarray:
        """The phenotypes of the .fam file; refused where one is missing."""
        gone = np.isnan(self.phenotypes)
        if gone.any():
            first = int(np.argmax(gone))
            raise InputError(
                f"{int(gone.sum())} of {self.rows} phenotypes in {self.path.with_suffix('.fam')} are missing, the "
                f"first that of individual {self.samples[first]!r} (row {first}, counting from 0); read the files with "
                "drop_missing=True to leave such rows out, or give a response of your own."
            )
        return self.phenotypes

    def genotypes(self, start: int, stop: int) -> np.ndarray:
        """Genotypes of some variants: copies of the first allele in the .bim file.

        Parameters
        ----------
        start, stop : int
            The first variant, and the one after the last.

        Returns
        -------
        ndarray of int8, shape (rows, stop - start)
            0, 1 or 2; -127 where the genotype is missing.
        """
        read = len(self._variants)
        if self._beside is not None and stop > read:
            other = self._beside[:, max(start - read, 0) : stop - read]
            if start >= read:
                return other
            own = self.genotypes(start, read)
            return np.hstack([np.where(own == MISSING, np.nan, own), other])
        # None stands for all, which is read without an index of the rows.
        rows = None if len(self._individuals) == self._bed.iid_count else self._individuals
        try:
            return self._bed.read(index=(rows, self._variants[start:stop]), dtype="int8")
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(f"the file {self.path} cannot be read: {_reason(error)}.") from None

    def beside(self, table: pd.DataFrame) -> PlinkGenotypes:
        """The genotypes with other columns behind them, such as age, sex and principal components.

        Estimators take them by ``always_in``.

        Parameters
        ----------
        table : DataFrame
            The columns, as numbers. Where the samples are its index, it is read by it; otherwise one row for each
            individual, in their order.
        """
        if not isinstance(table, pd.DataFrame):
            raise InputError(f"what stands beside genotypes is a pandas DataFrame; got {type(table).__name__}.")
        if set(self.samples) <= set(table.index):
            table = table.loc[list(self.samples)]
        if len(table) != self.rows:
            raise InputError(
                f"the table has {len(table)} rows for {self.rows} individuals; give one for each, or their identifiers "
                "as its index."
            )
        names = tuple(map(str, table.columns))
        taken = [name for name in names if name in set(self.names)]
        if taken:
            raise InputError(f"column {taken[0]!r} of the table has the name of a variant; rename it.")
        try:
            values = table.to_numpy(np.float64)
        except (TypeError, ValueError):
            raise InputError("the table beside the genotypes holds text; code it as numbers first.") from None
        return dataclasses.replace(self, names=(*self.names[: len(self._variants)], *names), _beside=values)


def read_plink(
    path: str | os.PathLike[str],
    columns: Sequence[str] | Sequence[int] | slice | None = None,
    drop_missing: bool = False,
) -> PlinkGenotypes:
    """Open genotypes in PLINK's files NAME.bed, NAME.bim and NAME.fam; needs ``modejump[plink]``.

    Parameters
    ----------
    path : str or path
        The .bed file, or what the three have in common. The other two lie beside it.
    columns : sequence of str or int, or slice, optional
        Variants to use, by name or position; all by default.
    drop_missing : bool
        Whether individuals without a phenotype are left out.

    Returns
    -------
    PlinkGenotypes
        Names, chromosomes and positions of the variants, phenotypes, and genotypes to be read some at a time.

    Examples
    --------
    >>> import tempfile
    >>> from bed_reader import to_bed
    >>> folder = tempfile.TemporaryDirectory()
    >>> genotypes = np.array([[0, 1], [2, 1], [1, 0]], np.int8)
    >>> known = {"sid": ["rs1", "rs2"], "pheno": ["1.5", "0.2", "3.1"]}
    >>> to_bed(f"{folder.name}/study.bed", genotypes, properties=known)
    >>> study = read_plink(f"{folder.name}/study.bed")
    >>> study.names, study.phenotype.tolist(), study.genotypes(0, 2).tolist()
    (('rs1', 'rs2'), [1.5, 0.2, 3.1], [[0, 1], [2, 1], [1, 0]])
    >>> folder.cleanup()
    """
    open_bed = _bed_reader()
    given = Path(path)
    bed = given if given.suffix == ".bed" else given.with_name(given.name + ".bed")
    for needed in (bed, bed.with_suffix(".bim"), bed.with_suffix(".fam")):
        if not needed.is_file():
            raise InputError(f"the file {needed} does not exist; .bed, .bim and .fam belong together in one folder.")
        if needed.stat().st_size == 0:
            raise InputError(f"the file {needed} is empty; check how it was made.")
    variants = _read_bim(bed.with_suffix(".bim"))
    people = _read_fields(bed.with_suffix(".fam"), _FAM, sample="str", phenotype="str")
    _check_bed(bed, len(variants), len(people))
    phenotypes = _phenotypes(people["phenotype"], bed.with_suffix(".fam"))
    chosen = _chosen(columns, variants.index, bed)
    rows = np.flatnonzero(~np.isnan(phenotypes)) if drop_missing else np.arange(len(people))
    if len(rows) == 0:
        raise InputError(f"no individual in {bed.with_suffix('.fam')} has a phenotype; give a response of your own.")
    some = variants.iloc[chosen]
    return PlinkGenotypes(
        path=bed,
        names=tuple(some.index),
        chromosome=some["chromosome"],
        position=some["position"],
        samples=tuple(people["sample"].iloc[rows]),
        phenotypes=phenotypes[rows],
        _bed=open_bed(bed, iid_count=len(people), sid_count=len(variants)),
        _variants=chosen,
        _individuals=rows,
    )


def _bed_reader() -> Any:
    try:
        from bed_reader import open_bed
    except ImportError:
        raise InputError(
            "reading PLINK files needs bed-reader, which is not installed; run: pip install 'modejump[plink]'."
        ) from None
    return open_bed


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _read_bim(path: Path) -> pd.DataFrame:
    """Chromosome and position of the variants, by name."""
    table = _read_fields(path, _BIM, chromosome="str", name="str", position="int64", other="category")
    nameless = table["name"] == "."
    table.loc[nameless, "name"] = table["chromosome"] + ":" + table["position"].astype(str)
    twice = table["name"].duplicated()
    if twice.any():
        raise InputError(
            f"{path} has two variants called {table['name'][twice].iloc[0]!r}; give each a name of its own, for "
            "instance by plink2 --set-all-var-ids."
        )
    table["chromosome"] = table["chromosome"].astype("category")
    return table.set_index("name")


def _read_fields(path: Path, fields: Sequence[str], **kinds: str) -> pd.DataFrame:
    """Some of the six fields of each line, apart by white space; the last one is among them."""
    try:
        table = pd.read_csv(
            path, sep=r"\s+", header=None, names=fields, usecols=list(kinds), index_col=False,
            dtype=kinds, quoting=csv.QUOTE_NONE, keep_default_na=False,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise InputError(f"the file {path} cannot be read: {_reason(error)}.") from None
    last = table[fields[-1]]
    short = (last.isna() | (last == "")).to_numpy()
    if short.any():
        raise InputError(f"line {int(np.argmax(short)) + 1} of {path} has fewer than six fields; check the file.")
    return table


def _check_bed(path: Path, variants: int, people: int) -> None:
    """Refuse a file that is no .bed by variants of as many variants and individuals as the other files say."""
    with path.open("rb") as file:
        start = file.read(3)
    if start[:2] != _MAGIC or start[2:] not in (_BY_VARIANT, _BY_SAMPLE):
        raise InputError(f"{path} is not a PLINK .bed file: its first bytes are not those of one.")
    if start[2:] == _BY_SAMPLE:
        raise InputError(
            f"{path} holds the genotypes individual by individual, an old form; run plink --make-bed to write it "
            "variant by variant."
        )
    size, expected = path.stat().st_size, 3 + variants * (-(-people // 4))
    if size != expected:
        raise InputError(
            f"{path} has {size} bytes, but {variants} variants (.bim) of {people} individuals (.fam) take {expected}: "
            f"the .bed file is {'cut short' if size < expected else 'longer'}, or the files do not belong together."
        )


def _phenotypes(texts: pd.Series, path: Path) -> np.ndarray:
    """Phenotypes as numbers, NaN where they are missing."""
    gone = texts.isin(_NO_PHENOTYPE).to_numpy()
    numbers = pd.to_numeric(texts.where(~gone), errors="coerce").to_numpy(np.float64)
    bad = ~gone & ~np.isfinite(numbers)
    if bad.any():
        line = int(np.argmax(bad))
        raise InputError(f"the phenotype in line {line + 1} of {path} is {texts.iloc[line]!r}, which is not a number.")
    if np.isin(numbers[~gone], (0.0, 1.0, 2.0)).all() and (numbers == 2.0).any():
        numbers[numbers == 0.0] = np.nan
    return numbers


def _chosen(columns: Any, names: pd.Index, path: Path) -> np.ndarray:
    """Positions of the variants to use."""
    every = np.arange(len(names))
    if columns is None or isinstance(columns, slice):
        chosen = every if columns is None else every[columns]
    elif all(isinstance(column, str) for column in columns):
        chosen = names.get_indexer(list(columns))
        if (chosen < 0).any():
            raise InputError(f"{path} has no variant {list(columns)[int(np.argmax(chosen < 0))]!r}; check its name.")
    else:
        chosen = np.asarray(columns)
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or ((chosen < 0) | (chosen >= len(names))).any():
            raise InputError(f"columns must be names or positions from 0 to {len(names) - 1} of variants of {path}.")
    if len(chosen) == 0:
        raise InputError("columns names no variant; name at least one, or leave it out for all.")
    if len(np.unique(chosen)) < len(chosen):
        raise InputError("columns names a variant twice; name each once.")
    return chosen
