"""The one way kernels are compiled: without the interpreter lock, cached on disk, division as in NumPy.

Numba's cache looks at the file of the function it holds, but a kernel has the code of others inside. So caches made
before the last change of any file with kernels are removed when the package is first imported after the change.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from numba import njit

from modejump.core.linking import EntryCompiler, LinkOnlyCompiler

_HOME = Path(__file__).parent.parent
_COMPILED = ("core", "data", "priors", "likelihoods", "features", "problem", "kernels", "samplers", "posterior")


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for folder in _COMPILED:
        for path in sorted((_HOME / folder).rglob("*.py")):
            stat = path.stat()
            digest.update(f"{folder}/{path.name}:{stat.st_mtime_ns}:{stat.st_size};".encode())
    return digest.hexdigest()


def forget_stale_caches() -> None:
    """Remove the compiled caches if any file with kernels has changed since they were made."""
    stamp = _HOME / "__pycache__" / "kernels.stamp"
    try:
        fingerprint = _fingerprint()
        if stamp.exists() and stamp.read_text() == fingerprint:
            return
        for folder in _COMPILED:
            for path in (_HOME / folder).rglob("*.nb[ci]"):
                path.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(fingerprint)
    except OSError:
        # A read-only installation: Numba keeps its caches elsewhere, and the files do not change.
        return


forget_stale_caches()

_compiled: Any = njit  # Numba's stubs do not know all of its options

# Inner functions are called from compiled code only; entries are called from Python and hold the code of all others.
kernel = _compiled(
    nogil=True,
    error_model="numpy",
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    pipeline_class=LinkOnlyCompiler,
)
# For sums over rows alone: the order of additions is the compiler's, which may then use vector instructions. The result
# is one and the same on one machine; it stays within rounding between machines.
summing = _compiled(
    nogil=True,
    error_model="numpy",
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    fastmath={"reassoc", "contract"},
    pipeline_class=LinkOnlyCompiler,
)
# For arithmetic on columns: a product and a sum may be rounded once instead of twice, but nothing else moves.
fused = _compiled(
    nogil=True,
    error_model="numpy",
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    fastmath={"contract"},
    pipeline_class=LinkOnlyCompiler,
)
entry = _compiled(
    nogil=True,
    cache=True,
    error_model="numpy",
    no_cfunc_wrapper=True,
    pipeline_class=EntryCompiler,
)
