"""GPU or interpreter: what this machine has and can do, and the plain sentence when it cannot."""

from __future__ import annotations

import functools
import operator
import os
import platform
from dataclasses import asdict, dataclass
from importlib import metadata

OTHER_NAMES = {"triton": ("pytorch-triton-rocm", "triton-rocm", "pytorch-triton-xpu", "triton-xpu")}


@dataclass(frozen=True)
class Machine:
    """What a check runs on.

    device:  "cuda" (which PyTorch also calls an AMD GPU), "xpu", or "cpu" for the interpreter.
    name:    the GPU's name, or "CPU, Triton interpreter".
    target:  as "sm_90" or "gfx942"; empty without a GPU.
    """

    device: str
    name: str
    target: str
    torch: str
    triton: str
    numpy: str
    python: str

    @property
    def summary(self) -> str:
        """One line that goes with measured numbers."""
        return f"{self.name}, torch {self.torch}, triton {self.triton}"

    def as_data(self) -> dict[str, str]:
        return asdict(self)


def use_interpreter() -> None:
    """Make this process run kernels on the CPU. Call it before anything imports triton."""
    os.environ["TRITON_INTERPRET"] = "1"


def version(package: str) -> str:
    """The installed version, or "not installed". Triton for AMD and Intel goes by other names."""
    for name in (package, *OTHER_NAMES.get(package, ())):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "not installed"


def gpu_device() -> str:
    """ "cuda" or "xpu" if PyTorch sees a GPU, else ""."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        return "xpu"
    return ""


def gpu_seen_by_driver() -> bool:
    """Whether a GPU's driver is loaded, found without importing torch (which takes seconds)."""
    signs = ["/dev/nvidiactl", "/dev/kfd", "/usr/lib/wsl/lib/libcuda.so.1"]
    if "xpu" in version("torch"):  # else it is only a laptop's display
        signs.append("/dev/dri/renderD128")
    return any(os.path.exists(path) for path in signs)


def describe(device: str) -> Machine:
    """The machine as seen from this process. device: "cpu", "cuda" or "xpu"."""
    name, target = "CPU, Triton interpreter", ""
    if device != "cpu":
        import torch

        name = getattr(torch, device).get_device_name()
        target = gpu_target(device)
    return Machine(
        device,
        name,
        target,
        version("torch"),
        version("triton"),
        version("numpy"),
        platform.python_version(),
    )


def gpu_target(device: str) -> str:
    """The architecture of the GPU at hand, as "sm_90" or "gfx942"."""
    import torch

    if device != "cuda":
        return ""
    properties = torch.cuda.get_device_properties()
    if torch.version.hip:
        return properties.gcnArchName.split(":")[0]
    return f"sm_{properties.major}{properties.minor}"


def gpu_answers(device: str) -> bool:
    """False once an illegal access has made the GPU useless to this process. True for "cpu"."""
    if device == "cpu":
        return True
    import torch

    try:
        getattr(torch, device).synchronize()
    except RuntimeError:
        return False
    return True


def repair_interpreter() -> None:
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


def use_first_configuration() -> None:
    """Let autotuned kernels run with their first configuration, untimed."""
    from triton.runtime.autotuner import Autotuner

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        config = self.prune_configs(kwargs)[0]
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        self.best_config = config
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    Autotuner.run = run


# Messages of the tools that a learner may meet, and what to do. (a part of the text, the sentence)
KNOWN_PROBLEMS = (
    (
        "Failed to find C compiler",
        "Triton builds a small launcher and needs a C compiler: install gcc (apt install "
        "build-essential) or set CC.",
    ),
    (
        "Python.h: No such file",
        f"Triton's launcher needs Python's headers: install "
        f"python{platform.python_version_tuple()[0]}."
        f"{platform.python_version_tuple()[1]}-dev.",
    ),
    (
        "libcuda.so cannot found",
        "The GPU driver's library was not found. On WSL it is in /usr/lib/wsl/lib; elsewhere set "
        "TRITON_LIBCUDA_PATH.",
    ),
    (
        "cannot find -lcuda",
        "The GPU driver's library was not found. On WSL it is in /usr/lib/wsl/lib; elsewhere set "
        "TRITON_LIBCUDA_PATH.",
    ),
    (
        "device kernel image is invalid",
        "The GPU driver is older than this Triton, or the cache is from another GPU: update the "
        "driver, or delete "
        "~/.triton/cache.",
    ),
    (
        "is not defined for option 'gpu-name'",
        "This GPU is newer than this Triton knows: a newer torch with its triton will do.",
    ),
    (
        "too old to be supported by the triton GPU compiler",
        "This GPU is too old for Triton. Everything but the timings works with --device cpu.",
    ),
    (
        "out of resource: shared memory",
        "The tile needs more shared memory than this GPU has: use smaller blocks or fewer stages.",
    ),
    (
        "CUDA out of memory",
        "The GPU's memory is full: close what else uses it, or run with --device cpu.",
    ),
    (
        "Permission denied: '/.triton",
        "The home directory is not writable: set TRITON_CACHE_DIR to a folder that is.",
    ),
    (
        "GLIBCXX_",
        "The system's C++ library is too old for this torch: a newer distribution or conda's "
        "libstdcxx-ng helps.",
    ),
    (
        "0 active drivers",
        "No GPU driver was found, and something asked for one. Kernels run without it; do_bench "
        "and autotune do not.",
    ),
    ("No module named 'numpy'", "The interpreter needs NumPy: pip install numpy."),
)


def known_problem(text: str) -> str:
    """The plain sentence for a tool's error message, or "" if it is not a known one."""
    return next((sentence for part, sentence in KNOWN_PROBLEMS if part in text), "")
