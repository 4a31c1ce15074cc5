"""The messages of Triton, Python and the machine that a learner may meet, and what they mean."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass

from shared.facts.findings import Cause, Kind
from shared.lesson.prose import unbreak


@dataclass(frozen=True)
class Message:
    """A known message. pattern: a regular expression that is found in it.

    says:    what happened.
    look:    what to do, where that is not said yet.
    machine: whether it is about the machine, whatever the kernel is.
    """

    pattern: str
    says: str
    look: str = ""
    machine: bool = False

    def __post_init__(self) -> None:
        unbreak(self, "says", "look")


_PYTHON = ".".join(platform.python_version_tuple()[:2])

MESSAGES = (
    # Of kernels and launchers.
    Message("range must be a power of 2",
        says="tl.arange only makes blocks whose length is a power of two.",
        look="Use BLOCK_SIZE = triton.next_power_of_2(n) and mask the lanes past n."),
    Message("arange's arguments must be of type tl.constexpr|arange.*constexpr",
        says="""tl.arange needs its length when the kernel is compiled, and an ordinary
            argument is only known when it runs.""",
        look="Pass the length as a parameter annotated tl.constexpr."),
    Message("object of type 'int' has no len",
        says="The grid is a number; a launch wants a tuple.",
        look="Write (n_programs,), with the comma."),
    Message("'int' object is not iterable|'tensor' object is not iterable|'pointer_type' object",
        says="A pointer or a block was used like a Python list.",
        look="""Read through a pointer with tl.load(x_ptr + offsets); use tl.sum and tl.max in
            place of Python's sum() and max()."""),
    Message("must be Tensor, not tensor",
        says="""A torch function was called on a block. Inside a kernel only tl. functions and
            operators work.""",
        look="Take the function of the same kind from triton.language, as tl.exp for torch.exp."),
    Message(r"axis \d+ out of bounds|axis.*out of range|invalid axis",
        says="""A reduction along an axis that the block does not have: a block with one axis
            has axis 0 only.""",
        look="Use axis=0 for a 1-D block; in a 2-D block, axis 1 is along the row."),
    Message("is not string|cannot convert .*(constexpr|tuple).* to tensor",
        says="A print() in the kernel: the interpreter shows anything, a GPU wants a text first.",
        look='Take it out when you have seen enough, or write tl.device_print("x", x).'),
    Message("'NoneType' object has no attribute",
        says="A name holds None where a block is expected.",
        look="Check what it was assigned: tl.store, for one, gives nothing back."),
    Message("'float' object cannot be interpreted as an integer",
        says="The grid holds a float: `/` always makes one.",
        look="Use triton.cdiv(n, BLOCK_SIZE), which divides and rounds up."),
    Message("Cannot call @triton.jit|'builtin_function_or_method' object has no attribute 'scalar'",
        says="The kernel was called like a function.",
        look="Launch it with a grid: kernel[grid](...)."),
    Message("unsupported tensor index|Did you forget to add @triton.jit",
        says="A block cannot be indexed like an array.",
        look="""Load the one element through its pointer, or sum the block with a mask that
            keeps one lane."""),
    Message("Cannot access global variable",
        says="""A kernel cannot see an ordinary global of the file. The interpreter allows it,
            a GPU does not.""",
        look="Pass the value as an argument, or make the global a tl.constexpr."),
    Message("Loop-carried variable",
        says="""A variable enters the loop with one type and leaves it with another. The
            interpreter allows it, a GPU does not.""",
        look="""Start it with the type it will have: tl.zeros(..., dtype=tl.float32), 0.0, or
            .to()."""),
    Message("unsupported AST node type: (Break|Continue)",
        says="A kernel cannot leave a loop early. The interpreter allows it, a GPU does not.",
        look="Choose the loop's bounds instead, or mask what should not happen."),
    Message("unsupported AST node|UnsupportedLanguageConstruct",
        says="""This piece of Python does not exist inside a kernel. The interpreter allows
            it, a GPU does not.""",
        look="Say it with tl. operations."),
    Message("Boolean value of Tensor with more than one value",
        says="`if` wants one value and got a block.",
        look="Choose element by element with tl.where(condition, a, b)."),
    Message("simultaneous multiple comparison|chained comparison",
        says="a < b < c works on numbers only.",
        look="Write (a < b) & (b < c)."),
    Message("Cannot make_shape_compatible|shape mismatch|could not be broadcast|Cannot broadcast",
        says="Two blocks of different shapes meet.",
        look="Give a vector its second axis: v[:, None] is a column, v[None, :] a row."),
    Message("Expected pointer argument to have shape|(Mask|Value) argument cannot be block type",
        says="The pointers, the mask and the value of a load or store must have one shape.",
        look="Make offsets and mask from the same tl.arange."),
    Message(r"module 'triton.language(\.math)?' has no attribute",
        says="There is no such function in triton.language.",
        look="""The lesson's page lists what it needs. tl.max reduces a block, tl.maximum
            compares two."""),
    Message(r"Expected dtype \['fp32', 'fp64'\] but got (fp16|bf16)",
        says="This function wants float32 and got half precision.",
        look="Convert right after the load: .to(tl.float32)."),
    Message("Both operands must be same dtype",
        says="tl.dot wants both sides in one dtype.",
        look="Convert one with .to(other.dtype)."),
    Message("exceeds triton maximum tensor numel",
        says="The block has more than 1,048,576 elements, the most that Triton allows.",
        look="Loop over the row in smaller blocks."),
    Message("num_warps must be a power of 2",
        says="num_warps is the number of groups of 32 threads: 1, 2, 4, 8, 16 or 32."),
    Message("Conflicting meta-parameters",
        says="A parameter is both autotuned and passed at the launch.",
        look="Leave it out of the launch."),
    Message("ellipsis|Ellipsis",
        says="A `...` is still in use.",
        look="Fill in the TODO that it belongs to."),
    Message(r"cpu tensor\?|cannot be accessed from Triton",
        says="An argument is not in this GPU's memory.",
        look="Allocate with device=x.device."),
    Message("UnboundLocalError|is not defined(?! for)|referenced before assignment",
        says="A name is used that was not assigned on the way here.",
        look="Check the spelling, and whether a TODO above defines it."),
    Message(r"missing \d+ required positional|an unexpected keyword|multiple values for argument",
        says="The launch does not pass what the kernel's parameters ask for.",
        look="Compare the two lists, in order."),
    # Of the machine, whatever the kernel is.
    Message("Failed to find C compiler",
        says="""Triton builds a small launcher and needs a C compiler: install gcc (apt
            install build-essential) or set CC.""",
        machine=True),
    Message(r"Python\.h: No such file",
        says=f"Triton's launcher needs Python's headers: install python{_PYTHON}-dev.",
        machine=True),
    Message(r"libcuda\.so cannot found",
        says="""The GPU driver's library was not found. On WSL it is in /usr/lib/wsl/lib;
            elsewhere set TRITON_LIBCUDA_PATH.""",
        machine=True),
    Message("cannot find -lcuda",
        says="""The GPU driver's library was not found. On WSL it is in /usr/lib/wsl/lib;
            elsewhere set TRITON_LIBCUDA_PATH.""",
        machine=True),
    Message("device kernel image is invalid",
        says="""The GPU driver is older than this Triton, or the cache is from another GPU:
            update the driver, or delete ~/.triton/cache.""",
        machine=True),
    Message("is not defined for option 'gpu-name'",
        says="This GPU is newer than this Triton knows: a newer torch with its triton will do.",
        machine=True),
    Message("too old to be supported by the triton GPU compiler",
        says="This GPU is too old for Triton. Everything but the timings works with --device cpu.",
        machine=True),
    Message("out of resource: shared memory",
        says="""The tile needs more shared memory than this GPU has: use smaller blocks or
            fewer stages.""",
        machine=True),
    Message("CUDA out of memory",
        says="The GPU's memory is full: close what else uses it, or run with --device cpu.",
        machine=True),
    Message(r"Permission denied: '/\.triton",
        says="The home directory is not writable: set TRITON_CACHE_DIR to a folder that is.",
        machine=True),
    Message("GLIBCXX_",
        says="""The system's C++ library is too old for this torch: a newer distribution or
            conda's libstdcxx-ng helps.""",
        machine=True),
    Message("0 active drivers",
        says="""No GPU driver was found, and something asked for one. Kernels run without it;
            do_bench and autotune do not.""",
        machine=True),
    Message("No module named 'numpy'",
        says="The interpreter needs NumPy: pip install numpy.",
        machine=True),
)


def explain_error(message: str, line: int = 0) -> list[Cause]:
    """What an error in a kernel means and what to do. Empty if it is not known."""
    known = _find(message, machine=False)
    if known is None:
        return []
    return [Cause(Kind.PATTERN, "error message", known.says, known.look, line=line)]


def known_problem(text: str) -> str:
    """The plain sentence for a message about the machine, or "" if it is not a known one."""
    known = _find(text, machine=True)
    return known.says if known else ""


def _find(text: str, machine: bool) -> Message | None:
    ours = (known for known in MESSAGES if known.machine is machine)
    return next((known for known in ours if re.search(known.pattern, text)), None)
