"""Records on disk: a JSON file that vouches for a file of arrays. Checkpoints, runs and saved models are records.

``NAME.json`` names ``NAME-N.npz`` with its size and its SHA-256. Both are written under another name, brought to the
disk and renamed, first the arrays and then the JSON file; the arrays of the record before are removed last. So at every
moment the JSON file stands for a complete record. Nothing is pickled or unpickled: an array file is a ZIP archive of
plain NPY entries without compression, and anything else is refused before memory is taken for it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from modejump.core.errors import InputError
from modejump.core.paths import open_plain, read_plain
from modejump.runtime.snapshots import Snapshot

VERSION = 4


@dataclass(frozen=True)
class Record:
    """One kind of record."""

    name: str  # first part of the names of its files
    what: str  # what a sentence calls it, before the directory
    advice: str  # what to do where it is damaged
    private: bool = False  # whether its files, which hold the user's rows, are for the user alone

    @property
    def file(self) -> str:
        """Name of the JSON file."""
        return f"{self.name}.json"

    def exists(self, folder: Path) -> bool:
        """Whether a directory holds such a record."""
        return (folder / self.file).exists()

    def damaged(self, folder: Path, why: str) -> InputError:
        """The error for a record that cannot be used."""
        return InputError(f"{self.what} {folder} is damaged: {why}; {self.advice}.")

    def write(
        self,
        folder: Path,
        about: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Write a record in the place of the one before, which stays where the new one cannot be written; ``files``
        are for people.
        """
        before = self._array_files(folder)
        name = f"{self.name}-{1 + max(before.values(), default=0)}.npz"
        try:
            digest, size = _write_arrays(folder / name, arrays, self.private)
            vouched = {
                "format": f"modejump {self.name}",
                "format_version": VERSION,
                "modejump_version": package_version(),
                "arrays": {"file": name, "size": size, "digest": digest},
            }
            vouched |= dict(about)
            text = json.dumps(vouched | {"digest": digest_of(vouched)}, indent=1, allow_nan=False, ensure_ascii=False)
            for other, content in (files or {}).items():
                write_file(folder / other, content)
            write_file(folder / self.file, text.encode(), self.private)
        except BaseException:
            # Arrays that no record names only take room, which may be what is missing.
            (folder / name).unlink(missing_ok=True)
            raise
        for old in before:
            old.unlink(missing_ok=True)

    def about(self, folder: Path) -> dict[str, Any]:
        """Contents of the JSON file; OSError where there is none."""
        text = read_plain(folder / self.file)
        try:
            about = json.loads(text)
        except (ValueError, RecursionError):
            raise self.damaged(folder, f"{self.file} is not valid JSON") from None
        if not isinstance(about, dict) or about.get("format") != f"modejump {self.name}":
            raise self.damaged(folder, f"{self.file} was not written by modejump")
        version = about.get("format_version")
        if version != VERSION:
            raise InputError(
                f"{self.what} {folder} has format {version!r} (of modejump {about.get('modejump_version')}), and this "
                f"modejump reads format {VERSION}; use the version that wrote it, or fit again."
            )
        if about.pop("digest", None) != digest_of(about):
            raise self.damaged(folder, f"{self.file} is not the file that was written")
        return about

    def read(self, folder: Path) -> tuple[dict[str, Any], Snapshot]:
        """Contents of the JSON file, and the arrays; OSError where there is no JSON file."""
        about = self.about(folder)
        held: dict[str, Any] = about["arrays"] if isinstance(about.get("arrays"), dict) else {}
        name = held.get("file")
        if not isinstance(name, str) or not self._numbered.fullmatch(name):
            raise self.damaged(folder, f"{self.file} names another file")
        try:
            blob = read_plain(folder / name)
        except OSError:
            raise self.damaged(folder, f"{name} cannot be read") from None
        if len(blob) != held.get("size") or hashlib.sha256(blob).hexdigest() != held.get("digest"):
            raise self.damaged(folder, f"{name} is not the file that was written")
        try:
            return about, _read_arrays(blob)
        except (ValueError, TypeError, KeyError, OSError, EOFError, NotImplementedError, zipfile.BadZipFile):
            raise self.damaged(folder, f"{name} holds something else than plain arrays") from None

    def remove(self, folder: Path) -> None:
        """Remove a record, whole or begun."""
        (folder / self.file).unlink(missing_ok=True)
        for path in self._array_files(folder):
            path.unlink(missing_ok=True)

    @property
    def _numbered(self) -> re.Pattern[str]:
        return re.compile(rf"{self.name}-([0-9]{{1,12}})\.npz")

    def _array_files(self, folder: Path) -> dict[Path, int]:
        """Files of arrays, with their numbers."""
        found = {path: self._numbered.fullmatch(path.name) for path in folder.glob(f"{self.name}-*.npz")}
        return {path: int(match[1]) for path, match in found.items() if match}


CHECKPOINT = Record("checkpoint", "the checkpoint in", "start the run again", private=True)
JOB = Record("job", "the run in", "start it again", private=True)
MODEL = Record("run", "the saved model in", "save it again")
# Files that were being written when the process ended.
_PARTIAL = re.compile(r"\.((checkpoint|job|run)(-\d+\.npz|\.json)|(inclusion|models)\.csv)\.[0-9a-f]{16}\.partial")


def package_version() -> str:
    """Version of modejump."""
    return metadata.version("modejump")


def is_partial(name: str) -> bool:
    """Whether a file is one whose writing something ended."""
    return bool(_PARTIAL.fullmatch(name))


def digest_of(about: Mapping[str, Any]) -> str:
    """SHA-256 of the contents of a JSON file."""
    return hashlib.sha256(json.dumps(about, sort_keys=True, allow_nan=False).encode()).hexdigest()


def write_file(path: Path, content: bytes, private: bool = False) -> None:
    """Write a small file, whole or not at all."""
    with whole_file(path, private) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path, private: bool = False) -> Iterator[BinaryIO]:
    """A file that appears under its name when it is on the disk; one that could not be finished takes no room."""
    # A name that nobody can foresee, for a file that was not there before.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        descriptor = open_plain(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        # Errors of writing do not say where.
        error.filename = error.filename or str(path)
        raise
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


class _Hashed(io.RawIOBase):
    """A file that is written from its beginning to its end, with the digest and the length of what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest, self.size = file, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        written = self.file.write(data)
        self.size += written
        return written


def _write_arrays(path: Path, arrays: Mapping[str, np.ndarray], private: bool) -> tuple[str, int]:
    """Write an NPZ file without compression; returns its SHA-256 and its length."""
    with whole_file(path, private) as file:
        hashed = _Hashed(file)
        with zipfile.ZipFile(hashed, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                # A fixed date: the same arrays are the same bytes.
                entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
                with archive.open(entry, "w", force_zip64=array.nbytes > 1 << 30) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    return hashed.digest.hexdigest(), hashed.size


def _read_arrays(blob: bytes) -> Snapshot:
    """The arrays of an NPZ file; ValueError and the like for anything else. None takes more memory than its bytes."""
    arrays: Snapshot = {}
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED or not entry.filename.endswith(".npy"):
                raise ValueError("no plain array")
            arrays[entry.filename.removesuffix(".npy")] = _read_array(archive.read(entry))
    return arrays


def _read_array(content: bytes) -> np.ndarray:
    """The array of an NPY file whose length is what its header says."""
    file = io.BytesIO(content)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[
        np.lib.format.read_magic(file)
    ]
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject or dtype.kind not in "biuf":
        raise ValueError("no plain numbers")
    rest = memoryview(content)[file.tell() :]
    count = 1
    for length in shape:
        count *= int(length)
    if count * dtype.itemsize != len(rest):
        raise ValueError("another length than the header says")
    return np.array(np.frombuffer(rest, dtype).reshape(shape, order="F" if fortran else "C"))
