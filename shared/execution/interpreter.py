"""Repairs of Triton's interpreter: what it does otherwise than a GPU, or not at all here."""

from __future__ import annotations

import functools
import operator

from shared.execution.autotuner import use_first_configuration


def repair() -> None:
    """Make the interpreter of this Triton work here, where a known fault has a known remedy.

    - triton 3.6 with NumPy 2.4 or later: a range() with run-time bounds fails with "only
      0-dimensional arrays can be converted" (triton-lang/triton#9171). The index of a tensor is
      taken from its single element instead.
    - an autotuned kernel asks a GPU driver for timings. Without one, the first configuration
      is used.
    - every call of tl.sum and its like prepares the language anew, which takes longer than the sum.
      Once a launch is enough. So it is with the table from Triton's types to NumPy's, which is made
      for every operation.
    - the variable of a loop with 64-bit bounds is a Python number, which counts as 32-bit in the
      next product. On a GPU it has the type of its bounds; so it does here.
    """
    import numpy
    from triton.runtime import interpreter

    patch_tensor = interpreter._patch_lang_tensor

    def patched(tensor, *scope):
        patch_tensor(tensor, *scope)

        def index(self):
            return int(self.handle.data.item())

        if scope:
            scope[0].set_attr(tensor, "__index__", index)
        else:
            tensor.__index__ = index

    interpreter._patch_lang_tensor = patched
    use_first_configuration()
    _prepare_once_a_launch(interpreter)
    _remember_numpy_types(interpreter)
    _keep_the_type_of_loop_variables(interpreter)
    numpy.seterr(all="ignore")  # a GPU does not warn about inf - inf either


def _keep_the_type_of_loop_variables(interpreter) -> None:
    import numpy
    import triton.language as tl

    def typed_range(*bounds, step=None, **options):
        if step is not None:
            bounds = (0, *bounds, step) if len(bounds) == 1 else (*bounds, step)
        numbers = range(*(operator.index(bound) for bound in bounds))
        if not any(isinstance(bound, tl.tensor) and bound.dtype == tl.int64 for bound in bounds):
            return numbers
        return (
            tl.tensor(interpreter.TensorHandle(numpy.array([n], numpy.int64), tl.int64), tl.int64)
            for n in numbers
        )

    patch = interpreter._patch_lang

    def patched(function):
        scope = patch(function)
        function.__globals__.setdefault("range", typed_range)  # plain numbers get a plain range
        for language in {function.__globals__.get("tl"), tl.core} - {None}:
            if hasattr(language, "range"):
                scope.set_attr(language, "range", typed_range)
        return scope

    interpreter._patch_lang = patched


def _prepare_once_a_launch(interpreter) -> None:
    prepared = set()
    launch = interpreter.GridExecutor.__call__

    def launch_afresh(executor, *args, **kwargs):
        prepared.clear()
        return launch(executor, *args, **kwargs)

    def call(function, *args, **kwargs):
        if function.fn not in prepared:
            interpreter._patch_lang(function.fn)
            prepared.add(function.fn)
        try:
            return function.rewrite()(*args, **kwargs)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    interpreter.GridExecutor.__call__ = launch_afresh
    interpreter.InterpretedFunction.__call__ = call


def _remember_numpy_types(interpreter) -> None:
    import triton.language as tl

    look_up = interpreter._get_np_dtype
    of_scalar = functools.cache(look_up)

    def numpy_type(dtype):
        scalar = dtype.scalar  # a block's type cannot be hashed
        return look_up(scalar) if isinstance(scalar, tl.pointer_type) else of_scalar(scalar)

    interpreter._get_np_dtype = numpy_type
