"""Checkpoints: the state of a run on disk, from which it goes on after whatever ended it.

A checkpoint is an array file ``checkpoint-N.npz`` and a manifest ``checkpoint.json`` that names it, with its size and
its SHA-256. Both are written under another name, brought to the disk and then renamed, first the arrays and then the
manifest; the array file before is removed last. So at every moment the manifest stands for a complete state. Nothing
is ever pickled or unpickled: an array file is a ZIP archive of plain NPY entries without compression, and whatever
does not look like one is refused before memory is taken for it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import threading
import time
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from modejump.core.errors import InputError, UnsavedWarning
from modejump.runtime.snapshots import Snapshot

FORMAT, FORMAT_VERSION = "modejump checkpoint", 1
MANIFEST = "checkpoint.json"
EVERY = 10.0
# Checkpoints take at most this share of the time: where one takes long, the next one waits longer.
MOST_SHARE = 0.01
_ARRAYS = re.compile(r"checkpoint-[0-9]{1,12}\.npz")


@dataclass(frozen=True, eq=False)
class Saved:
    """What a checkpoint holds.

    Attributes
    ----------
    state : mapping
        The driver's own state, made of what JSON holds.
    arrays : mapping of str to ndarray
        Snapshots of the chains, and the driver's arrays.
    """

    state: Mapping[str, Any]
    arrays: Snapshot


def resumed_seconds(saved: Saved | None, algorithm: str) -> float:
    """Seconds that a run had spent before; refused where another algorithm left the state."""
    if saved is None:
        return 0.0
    spent = saved.state.get("spent")
    if saved.state.get("algorithm") != algorithm or not isinstance(spent, float | int) or not 0 <= spent < np.inf:
        raise InputError(f"the checkpoint is not one of {algorithm}; begin the run anew.")
    return float(spent)


def whole_number(saved: Saved, name: str, low: int, high: int) -> int:
    """A whole number of the driver's state, from ``low`` up to, but not including, ``high``."""
    value = saved.state.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < high:
        raise InputError(f"the checkpoint is damaged: {name} is {value!r}; begin the run anew.")
    return value


def resumed_target(saved: Saved | None) -> int | None:
    """Steps at which a wanted precision is judged next."""
    if saved is None or saved.state.get("target") is None:
        return None
    return whole_number(saved, "target", 1, 1 << 62)


class NoCheckpoint:
    """A run that leaves nothing behind."""

    saved: Saved | None = None

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return False

    def save(self, state: Mapping[str, Any], arrays: Snapshot) -> None:
        """Write a checkpoint."""

    def close(self) -> None:
        """Wait until what was begun is written."""


class Checkpoint(NoCheckpoint):
    """Checkpoints of one run in a directory.

    A driver asks ``due()`` between two pieces of work and hands over its state by ``save``; a thread writes it while
    the chains go on.

    Parameters
    ----------
    directory : path
        Where the files are; an earlier run's checkpoint there is read and found in ``saved``.
    every : float
        Seconds between two checkpoints, at least.
    fingerprint : str
        What the state belongs to: a checkpoint with another fingerprint is refused.
    """

    def __init__(self, directory: str | os.PathLike[str], every: float = EVERY, fingerprint: str = "") -> None:
        if not every > 0:
            raise InputError(f"checkpoints every {every!r} seconds cannot be written; give a positive number.")
        self.directory, self.every, self.fingerprint = Path(directory), float(every), fingerprint
        self.generation, self.saved = 0, None
        manifest = read_manifest(self.directory)
        if manifest is not None:
            if manifest["fingerprint"] != fingerprint:
                raise InputError(
                    f"the checkpoint in {self.directory} belongs to another run; remove it, or give another directory."
                )
            self.generation = manifest["generation"]
            self.saved = Saved(manifest["state"], _read_arrays(self.directory, manifest))
        self._writer: threading.Thread | None = None
        self._failure = self._told = ""
        self._asked = 0.0
        self._cost = 0.0
        self._next = time.monotonic() + self.every

    def due(self) -> bool:
        """Whether it is time for a checkpoint: long enough since the last one, which is written."""
        if self._writer is not None:
            if self._writer.is_alive():
                return False
            self._writer = None
            self._next = max(self._next, time.monotonic() + self._cost / MOST_SHARE - self.every)
            if self._failure and self._failure != self._told:
                warnings.warn(
                    f"a checkpoint could not be written: {self._failure}; the run goes on, and tries again.",
                    UnsavedWarning,
                    stacklevel=2,
                )
            # Once for each trouble: whoever was told need not hear of it every ten seconds.
            self._told, self._failure = self._failure, ""
        now = time.monotonic()
        if now < self._next:
            return False
        self._asked = now
        return True

    def save(self, state: Mapping[str, Any], arrays: Snapshot) -> None:
        """Hand over a state, whose arrays nobody changes any more; a thread writes it."""
        self._cost = time.monotonic() - self._asked
        self._next = time.monotonic() + self.every
        self.generation += 1
        self._writer = threading.Thread(target=self._write, args=(self.generation, dict(state), arrays))
        self._writer.start()

    def close(self) -> None:
        """Wait until what was begun is written."""
        if self._writer is not None:
            self._writer.join()

    def _write(self, generation: int, state: dict[str, Any], arrays: Snapshot) -> None:
        began = time.thread_time()
        try:
            write_checkpoint(self.directory, generation, self.fingerprint, state, arrays)
        except OSError as error:
            self._failure = error.strerror or str(error)
        self._cost += time.thread_time() - began


# --- files --------------------------------------------------------------------------------------------------------


def write_checkpoint(
    directory: Path, generation: int, fingerprint: str, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write one generation, and remove those before it when it is complete."""
    name = f"checkpoint-{generation}.npz"
    digest, size = write_arrays(directory / name, arrays)
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "generation": generation,
        "fingerprint": fingerprint,
        "arrays": name,
        "size": size,
        "digest": digest,
        "state": dict(state),
    }
    content = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False).encode()
    try:
        write_whole(directory / MANIFEST, content)
    except OSError:
        # Arrays that nobody knows of only take room, which may be what is missing.
        (directory / name).unlink(missing_ok=True)
        raise
    remove_checkpoints(directory, but=name)


def remove_checkpoints(directory: Path, but: str = "") -> None:
    """Remove array files of checkpoints, whole or begun, except one; without an exception the manifest as well."""
    if not but:
        (directory / MANIFEST).unlink(missing_ok=True)
    for path in directory.glob("*checkpoint-*.npz*"):
        if path.name != but and _ARRAYS.search(path.name):
            path.unlink(missing_ok=True)


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


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> tuple[str, int]:
    """Write an NPZ file without compression, whole or not at all; returns its SHA-256 and its length."""
    with _whole(path) as file:
        hashed = _Hashed(file)
        with zipfile.ZipFile(hashed, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                # A fixed date: the same arrays are the same bytes.
                entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
                with archive.open(entry, "w", force_zip64=array.nbytes > 1 << 30) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    return hashed.digest.hexdigest(), hashed.size


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file, whole or not at all."""
    with _whole(path) as file:
        file.write(content)


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name when it is on the disk; what could not be finished takes no room there."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb") as file:
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


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest of the checkpoint in a directory; None where there is none."""
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        raise _damaged(directory, f"{MANIFEST} is not valid JSON") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _damaged(directory, f"{MANIFEST} was not written by modejump")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"the checkpoint in {directory} has format {version!r}, and this modejump reads format {FORMAT_VERSION}; "
            "go on with the modejump that wrote it."
        )
    kinds = {"generation": int, "fingerprint": str, "arrays": str, "size": int, "digest": str, "state": dict}
    if any(not isinstance(manifest.get(name), kind) for name, kind in kinds.items()):
        raise _damaged(directory, f"{MANIFEST} is incomplete")
    if not _ARRAYS.fullmatch(manifest["arrays"]):
        raise _damaged(directory, f"{MANIFEST} names another file")
    return manifest


def _damaged(directory: Path, why: str) -> InputError:
    return InputError(f"the checkpoint in {directory} is damaged: {why}; begin the run anew.")


def _read_arrays(directory: Path, manifest: Mapping[str, Any]) -> Snapshot:
    name = manifest["arrays"]
    try:
        blob = (directory / name).read_bytes()
    except OSError:
        raise _damaged(directory, f"{name} cannot be read") from None
    if len(blob) != manifest["size"] or hashlib.sha256(blob).hexdigest() != manifest["digest"]:
        raise _damaged(directory, f"{name} is not the file that was written")
    try:
        return read_arrays(blob)
    except (ValueError, TypeError, KeyError, OSError, EOFError, NotImplementedError, zipfile.BadZipFile):
        raise _damaged(directory, f"{name} holds something else than plain arrays") from None


def read_arrays(blob: bytes, packed: bool = False) -> Snapshot:
    """The arrays of an NPZ file; ValueError and the like for anything else.

    No entry is unpickled, and none takes more memory than it has bytes.

    Parameters
    ----------
    blob : bytes
        The file.
    packed : bool
        Whether its entries may be compressed.
    """
    arrays: Snapshot = {}
    allowed = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) if packed else (zipfile.ZIP_STORED,)
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        for entry in archive.infolist():
            if entry.compress_type not in allowed or not entry.filename.endswith(".npy"):
                raise ValueError("no plain array")
            arrays[entry.filename.removesuffix(".npy")] = _read_array(archive.read(entry))
    return arrays


def _read_array(content: bytes) -> np.ndarray:
    """The array of an NPY file whose length is what its header says."""
    file = io.BytesIO(content)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[np.lib.format.read_magic(file)]
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
