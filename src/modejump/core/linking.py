"""Kernels that are linked, and not made executable on their own.

Numba optimises every compiled function and turns it into machine code, although a kernel runs only as part of the
entry that holds it, where it is optimised once more. Most of the time of a first fit went there. Kernels compiled with
``KERNEL_OPTIONS`` stop at LLVM's representation; the entry does the rest, once.

This rests on classes of Numba that are not part of its interface. Where they are not as expected, kernels are compiled
in Numba's own way: a first fit then takes two to three times as long, and nothing else changes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

KERNEL_OPTIONS: dict[str, Any] = {}
ENTRY_OPTIONS: dict[str, Any] = {}

# How Numba names a function that it will know later, in this process alone.
_UNRESOLVED = ".numba.unresolved$"

try:
    from numba import njit
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import register_pass
    from numba.core.typed_passes import NativeLowering

    class _LinkOnlyLibrary(JITCodeLibrary):
        """The code of one function for an entry to link: neither optimised here nor joined with the code it calls."""

        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def finalize(self) -> None:
            """Close the library; the entry links the libraries of all functions below it."""
            self._raise_if_finalized()
            self._finalize_dynamic_globals()
            self._finalized = True

    class _EntryLibrary(JITCodeLibrary):
        """The code of an entry with all it calls, optimised once.

        Numba runs a cheap round of optimisation first, to bring reference counts together; handles have none.
        """

        def _optimize_final_module(self) -> None:
            manager, builder = self._codegen._module_pass_manager()
            with self._recorded_timings.record("Module passes (full optimization)", builder):
                manager.run(self._final_module, builder)
            if any(function.name.startswith(_UNRESOLVED) for function in self._final_module.functions):
                raise NotImplementedError("functions that call each other in a circle cannot be kept on disk")

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _EntryLowering(NativeLowering):
        _name = "modejump_entry_lowering"

        def run_pass(self, state: Any) -> bool:
            state.library = _EntryLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            return super().run_pass(state)

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _LinkOnlyLowering(NativeLowering):
        _name = "modejump_link_only_lowering"

        def run_pass(self, state: Any) -> bool:
            context = state.targetctx
            state.library = _LinkOnlyLibrary(context.codegen(), state.func_id.func_qualname)
            state.flags.no_compile = True
            super().run_pass(state)
            lowered = state["cr"]
            # Numba finds a compiled function by its Python callable, which must be a builtin one with keyword
            # arguments: the method of a dictionary that belongs to nobody else. Called from Python by mistake, it
            # raises TypeError.
            stand_in = {"linked only": state.func_id.func_qualname}.update
            # Whoever calls this function links it and everything it calls, each once.
            libraries = list(dict.fromkeys([state.library, *state.library._linking_libraries]))
            context.insert_user_function(stand_in, lowered.fndesc, libraries)
            state["cr"] = lowered._replace(cfunc=stand_in)
            return True

    class _Linking(CompilerBase):
        """Numba's usual pipeline, with another last step where that works."""

        lowering: type[NativeLowering]
        trial = False

        def define_pipelines(self) -> list[Any]:
            """The pipeline."""
            pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
            if self.trial or links():
                steps = [(self.lowering if step is NativeLowering else step, text) for step, text in pipeline.passes]
                pipeline.passes = steps
                pipeline.finalize()
            return [pipeline]

    class _KernelCompiler(_Linking):
        lowering = _LinkOnlyLowering

    class _EntryCompiler(_Linking):
        lowering = _EntryLowering

    class _KernelTrial(_KernelCompiler):
        trial = True

    class _EntryTrial(_EntryCompiler):
        trial = True

    @cache
    def links() -> bool:
        """Whether an entry that calls a kernel works; tried once, before the first function is compiled."""
        options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _KernelTrial}
        inner: Any = njit(**options)(lambda x: x + 1)
        outer: Any = njit(no_cfunc_wrapper=True, pipeline_class=_EntryTrial)(lambda x: inner(x) * 2)
        try:
            return bool(outer(1) == 4)
        except Exception:  # other insides can fail in any way
            return False

    KERNEL_OPTIONS = {"pipeline_class": _KernelCompiler}
    ENTRY_OPTIONS = {"pipeline_class": _EntryCompiler}
except (ImportError, AttributeError, TypeError):
    pass
