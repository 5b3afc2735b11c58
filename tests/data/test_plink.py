"""PLINK files: what is read, and one sentence for each way in which they can be broken."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bed_reader import to_bed

from modejump.core.errors import InputError
from modejump.data.markers import MISSING, learn_markers
from modejump.data.plink import read_plink

N, M = 37, 21


def some_genotypes(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).binomial(2, 0.5, (N, M)).astype(np.int8)


def write(folder: Path, g: np.ndarray, phenotype: Any = None, **properties: Any) -> Path:
    n, m = g.shape
    path = folder / "study.bed"
    to_bed(path, g, properties={
        "iid": [f"id{i}" for i in range(n)],
        "sid": [f"rs{j}" for j in range(m)],
        "chromosome": ["1"] * (m - 5) + ["X"] * 5,
        "bp_position": [100 * j for j in range(m)],
        "pheno": [f"{0.5 * i}" for i in range(n)] if phenotype is None else phenotype,
        **properties,
    })  # fmt: skip
    return path


@pytest.fixture
def bed(tmp_path: Path) -> Path:
    return write(tmp_path, some_genotypes())


def test_names_positions_phenotypes_and_genotypes_are_those_written(bed: Path) -> None:
    for path in (bed, str(bed), bed.with_suffix("")):
        read = read_plink(path)
        assert read.names == tuple(f"rs{j}" for j in range(M)) and read.rows == N
        assert read.samples[:2] == ("id0", "id1")
        assert read.chromosome["rs2"] == "1" and read.chromosome.iloc[-1] == "X"
        assert read.position["rs7"] == 700
        np.testing.assert_array_equal(read.phenotype, 0.5 * np.arange(N))
        block = read.genotypes(3, 11)
        assert block.dtype == np.int8
        np.testing.assert_array_equal(block, some_genotypes()[:, 3:11])


def test_bytes_are_decoded_as_plink_documents_them(tmp_path: Path) -> None:
    # The example of PLINK's documentation: six individuals, three variants; A1 is G, 1 and A.
    bed = tmp_path / "toy.bed"
    bed.write_bytes(bytes.fromhex("6c1b01 dc0f e70f 6b01"))
    bed.with_suffix(".bim").write_text("1 snp1 0 1 G A\n1\tsnp2\t0\t2\t1\t2\n1 . 0 3 A C\n")
    bed.with_suffix(".fam").write_text("".join(f"1 {i} 0 0 1 {v}\n" for i, v in enumerate("002222")))
    read = read_plink(bed)
    assert read.names == ("snp1", "snp2", "1:3")
    none = MISSING
    expected = [[2, 0, 0], [0, none, 1], [none, 1, 1], [0, 0, none], [0, 0, none], [0, 0, 2]]
    assert read.genotypes(0, 3).tolist() == expected
    assert np.isnan(read.phenotypes).tolist() == [True, True, False, False, False, False]


def test_variants_may_be_chosen_by_name_position_or_slice(bed: Path) -> None:
    g = some_genotypes()
    for columns, numbers in ((["rs9", "rs2"], [9, 2]), ([4, 0], [4, 0]), (slice(3, 8), list(range(3, 8)))):
        read = read_plink(bed, columns)
        assert read.names == tuple(f"rs{j}" for j in numbers) == tuple(read.position.index)
        np.testing.assert_array_equal(read.genotypes(0, len(numbers)), g[:, numbers])
        np.testing.assert_array_equal(read.genotypes(1, 2), g[:, numbers[1:2]])


@pytest.mark.parametrize(("columns", "said"), [
    (["rs1", "no"], "has no variant 'no'"), ([0, M], "positions from 0 to 20"), ([0.5], "positions from 0 to 20"),
    ([], "names no variant"), ([3, 3], "twice"), (slice(4, 4), "names no variant"),
])  # fmt: skip
def test_variants_that_are_not_there_are_refused(bed: Path, columns: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_plink(bed, columns)


def test_missing_phenotypes_are_refused_when_asked_for_or_left_out(tmp_path: Path) -> None:
    phenotype = ["1.5"] * N
    phenotype[5], phenotype[8] = "-9", "NA"
    bed = write(tmp_path, some_genotypes(), phenotype)
    read = read_plink(bed)
    np.testing.assert_array_equal(read.genotypes(0, M), some_genotypes())
    with pytest.raises(InputError, match=r"^2 of 37 phenotypes in .*study.fam are missing, .* 'id5' .row 5,"):
        read.phenotype  # noqa: B018
    read = read_plink(bed, drop_missing=True)
    assert read.rows == N - 2 and "id5" not in read.samples
    assert read.phenotype.tolist() == [1.5] * (N - 2)
    np.testing.assert_array_equal(read.genotypes(2, 6), np.delete(some_genotypes(), [5, 8], axis=0)[:, 2:6])


def test_zero_is_missing_among_cases_and_controls_alone(tmp_path: Path) -> None:
    cases = ["1", "2"] * (N // 2) + ["0"]
    assert np.isnan(read_plink(write(tmp_path, some_genotypes(), cases)).phenotypes).nonzero()[0].tolist() == [N - 1]
    counts = ["1", "2", "3"] * (N // 3) + ["0"]
    assert read_plink(write(tmp_path, some_genotypes(), counts)).phenotype[-1] == 0.0
    binary = ["0", "1"] * (N // 2) + ["0"]
    assert read_plink(write(tmp_path, some_genotypes(), binary)).phenotype[-1] == 0.0
    with pytest.raises(InputError, match="no individual in .*study.fam has a phenotype"):
        read_plink(write(tmp_path, some_genotypes(), ["-9"] * N), drop_missing=True)
    with pytest.raises(InputError, match="phenotype in line 1 of .*study.fam is 'ill', which is not a number"):
        read_plink(write(tmp_path, some_genotypes(), ["ill"] * N))


def test_genotypes_of_files_are_coded_as_those_of_arrays(tmp_path: Path) -> None:
    g = some_genotypes()
    g[4, 7] = MISSING
    read = read_plink(write(tmp_path, g))
    with pytest.raises(InputError, match="^1 of 777 genotypes are missing, the first in column 'rs7', row 4 "):
        learn_markers(read, coding="genotype")
    coding, markers, _ = learn_markers(read, coding="genotype", missing="mode")
    _, expected, _ = learn_markers(g, coding="genotype", missing="mode")
    assert coding.names[:2] == ["rs0_d", "rs0_r"]
    np.testing.assert_array_equal(markers.words, expected.words)
    turned = read_plink(read.path, slice(None, None, -1))
    np.testing.assert_array_equal(coding.apply(turned), expected.unpack())


def shorten(path: Path, by: int) -> None:
    path.write_bytes(path.read_bytes()[:-by])


def repeat_last_line(path: Path) -> None:
    path.write_text(path.read_text() + path.read_text().splitlines()[-1].replace("rs20", "rs21") + "\n")


BROKEN = {
    "no .bed": (lambda bed: bed.unlink(), r"study.bed does not exist"),
    "no .bim": (lambda bed: bed.with_suffix(".bim").unlink(), r"study.bim does not exist"),
    "no .fam": (lambda bed: bed.with_suffix(".fam").unlink(), r"study.fam does not exist"),
    "truncated": (lambda bed: shorten(bed, 11), r"202 bytes, but 21 variants .* 37 .* take 213.*cut short"),
    "empty": (lambda bed: bed.write_bytes(b""), r"study.bed is empty"),
    "text": (lambda bed: bed.write_bytes(b"chrom,pos\n1,2\n"), r"is not a PLINK .bed file"),
    "by sample": (lambda bed: bed.write_bytes(b"\x6c\x1b\x00" + bed.read_bytes()[3:]), r"individual by individual"),
    "unknown form": (lambda bed: bed.write_bytes(b"\x6c\x1b\x05" + bed.read_bytes()[3:]), r"not a PLINK .bed file"),
    "longer .bim": (lambda bed: repeat_last_line(bed.with_suffix(".bim")), r"22 variants .* 37 .* take 223.*cut short"),
    "longer .fam": (
        lambda bed: [repeat_last_line(bed.with_suffix(".fam")) for _ in range(4)],
        r"41 individuals .* take 234.*do not belong together",
    ),
    "shorter .bim": (
        lambda bed: bed.with_suffix(".bim").write_text("1 rs1 0 5 A C\n"),
        r"1 variants .* take 13.*is longer, or",
    ),
    "empty .fam": (lambda bed: bed.with_suffix(".fam").write_text(""), r"study.fam is empty"),
    "short line": (
        lambda bed: bed.with_suffix(".fam").write_text("1 a 0 0 1 5\n1 b 0\n"),
        r"line 2 of .*study.fam has fewer than six fields",
    ),
    "position": (lambda bed: bed.with_suffix(".bim").write_text("1 rs1 0 here A C\n"), r"study.bim cannot be read"),
    "binary .bim": (lambda bed: bed.with_suffix(".bim").write_bytes(bytes(range(128, 255))), r"study.bim cannot be"),
    "same name": (
        lambda bed: bed.with_suffix(".bim").write_text("1 rs1 0 5 A C\n1 rs1 0 6 A C\n"),
        r"two variants called 'rs1'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_files_are_refused_in_one_sentence(bed: Path, fault: str) -> None:
    breaks, said = BROKEN[fault]
    breaks(bed)
    with pytest.raises(InputError, match=said) as caught:
        read_plink(bed)
    assert "\n" not in str(caught.value)


def test_a_file_that_vanishes_after_it_was_opened_is_named(bed: Path) -> None:
    read = read_plink(bed)
    bed.unlink()
    with pytest.raises(InputError, match=r"study.bed cannot be read"):
        read.genotypes(0, 2)


def test_without_bed_reader_the_extra_is_named(bed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bed_reader", None)
    with pytest.raises(InputError, match=r"pip install 'modejump\[plink\]'"):
        read_plink(bed)
