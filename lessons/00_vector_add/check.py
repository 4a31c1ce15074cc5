"""The self-check of lesson 00, as data. Run by itself it is ./run.sh 00_vector_add."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from shared.lesson import Benchmark, Case, Exercise, Function, Mistake, Todo, Traffic, run_by_itself
from shared.lesson.mistakes import float32_output


def add(x, y):
    return x + y


def traffic(x, y):
    return Traffic(reads=x.nbytes + y.nbytes, writes=x.nbytes)


vector_add = Exercise(
    script="vector_add.py",
    functions=[
        Function(
            name="vector_add",
            arguments=lambda shape: {"x": shape, "y": shape},
            reference=add,
            traffic=traffic,
            memory=(3000,),
            typical=(1 << 20,),
            picture=(4000,),
            cases=[
                Case((3,), again=True, why="far fewer elements than a block"),
                Case((1,), why="one element"),
                Case((1023,), why="one less than a block"),
                Case((1024,), why="exactly one block"),
                Case((1025,), why="one element in the second block"),
                Case((2999,), why="a prime number of elements in three blocks"),
                Case((2999,), "float16", why="half precision: the sum is float16 too"),
                Case((3000,), values="around -2.3", why="no value near zero"),
                Case((1100,), layout="every other element",
                     why="x[::2]: the next element is two further on"),
                Case((1100,), "float16", layout="every other element",
                     why="strides count elements, not bytes"),
                Case((1100,), layout={"x": "every other element"},
                     why="x has a stride, y has none"),
                Case((1100,), layout={"y": "every other element"},
                     why="y has a stride, x has none"),
                Case((40,), layout="expanded", why="one element expanded: a stride of 0"),
                Case((3,), "float16", layout="columns 2**30 apart",
                     why="offset times stride passes 2**31: it needs 64 bits"),
                Case((1100,), values="some -inf", why="infinities are ordinary values"),
                Case((0,), why="empty vectors give an empty vector"),
                Case((9,), refuses="y", misfit="one element longer"),
                Case((9,), refuses="y", misfit="of another dtype"),
                Case((9,), gpu_only=True, refuses="y", misfit="on the CPU"),
                Case((2999,), "bfloat16", gpu_only=True, why="bfloat16"),
                Case((10_000_019,), gpu_only=True, why="ten thousand programs"),
                Case((2**31 + 1031,), "float16", layout="expanded", gpu_only=True,
                     why="more than 2**31 elements: pid * BLOCK_SIZE needs 64 bits"),
            ],
            benchmark=Benchmark(
                x="elements",
                values=tuple(2**n for n in range(16, 29, 2)),
                shape=lambda n: (n,),
                dtype="float32",
                baselines={"torch.add": add},
            ),
        )
    ],
    todos=[
        Todo(1, hints=(
            """Program pid owns BLOCK_SIZE neighbours. Its first element is pid * BLOCK_SIZE;
            add 0, 1, 2, ... to that.""",
            """tl.arange(0, BLOCK_SIZE) is the block 0, 1, ..., BLOCK_SIZE - 1. A number plus a
            block is a block.""",
            "offsets = pid * ... + tl.arange(0, ...)",
        ), mistakes=[
            Mistake("every program does the first block", "pid * BLOCK_SIZE + ", "",
                    says="""every program handles the first block: the program id is not in the
                        offsets""",
                    look="what makes program 1's offsets differ from program 0's."),
            Mistake("blocks one element apart", "* BLOCK_SIZE ", "",
                    says="program 1 starts one element after program 0: blocks overlap",
                    look="how far program pid's first element is from the vector's first."),
            Mistake("arange over a run-time length", ", BLOCK_SIZE", ", n_elements",
                    says="""tl.arange is asked for n_elements lanes: a block's length has to be
                        known when the kernel is compiled""",
                    look="which of the kernel's parameters is a tl.constexpr."),
        ]),
        Todo(2, hints=(
            """The last block sticks out past the end of the vector, unless BLOCK_SIZE divides
            its length.""",
            "A comparison of a block with a number is a block of True and False.",
            "mask = offsets < ...",
        ), mistakes=[
            Mistake("the mask lets one lane too many through", "offsets <", "offsets <=",
                    says="""the mask is True for offset n_elements, which is one past the last
                        element""",
                    look="the comparison: the last element has offset n_elements - 1."),
            Mistake("the mask compares with BLOCK_SIZE", "n_elements", "BLOCK_SIZE",
                    says="""offsets are compared with BLOCK_SIZE: the mask is about the block,
                        not about the vector""",
                    look="what an offset has to be smaller than."),
        ]),
        Todo(3, hints=(
            """x_ptr is the address of x's first element. Adding a block of offsets to it gives
            a block of addresses.""",
            """tl.load(addresses, mask=...) reads them; lanes where the mask is False touch no
            memory.""",
            "x = tl.load(x_ptr + offsets * ..., mask=...), and the same for y with its own stride.",
        ), mistakes=[
            Mistake("no mask on the load", "stride_x, mask=mask", "stride_x",
                    says="""a load has no mask: lanes past the end read memory that belongs to
                        somebody else""",
                    look="the mask argument of the load."),
            Mistake("y read from x", "y_ptr + offsets * stride_y", "x_ptr + offsets * stride_x",
                    says="x is added to itself: both loads read from x_ptr",
                    look="the pointer and the stride of the second load."),
            Mistake("stride ignored", " * stride_x", "",
                    also=[(" * stride_y", "")],
                    says="""the stride is left out: right for a contiguous vector, wrong for a
                        view such as x[::2]""",
                    look="where element i of a view lies."),
            Mistake("y read with the stride of x", "stride_y", "stride_x",
                    says="y is read with x's stride: right as long as both have the same",
                    look="the stride in the second load."),
        ]),
        Todo(4, hints=(
            """The mirror image of the load. Without the mask, the last program writes past the
            end of out.""",
            "tl.store(addresses, values, mask=...).",
            "tl.store(out_ptr + offsets, ..., mask=...)",
        ), mistakes=[
            Mistake("no mask on the store", ", mask=mask", "",
                    says="""the store has no mask: the sums are right, and lanes past the end
                        are written too""",
                    look="the mask argument of tl.store."),
            Mistake("stored with the stride of x", "offsets", "offsets * stride_x",
                    says="the store uses x's stride, and out is contiguous whatever x is",
                    look="the pointers of the store."),
            Mistake("stored into x", "out_ptr + offsets", "x_ptr + offsets * stride_x",
                    says="the sum is stored into x, and out stays empty",
                    look="the pointer of the store."),
            Mistake("nothing is stored", "tl.store(out_ptr + offsets, x + y, mask=mask)", "x + y",
                    says="the sum is computed and never stored",
                    look="tl.store."),
            Mistake("the difference", "x + y,", "x - y,",
                    says="y is subtracted",
                    look="what is stored."),
        ]),
        Todo(5, hints=(
            """Every block needs a program, also the last one, which may be only partly filled.
            So divide and round up.""",
            """triton.cdiv(a, b) divides and rounds up. A grid is a tuple, even with one number
            in it: (n,).""",
            "grid = (triton.cdiv(n_elements, ...),)",
        ), mistakes=[
            Mistake("the last block has no program",
                    "triton.cdiv(n_elements, BLOCK_SIZE)", "n_elements // BLOCK_SIZE",
                    says="""the number of programs is rounded down: the last, partly filled
                        block has none""",
                    look="the division: it must round up."),
            Mistake("one program too few or too many", "triton.cdiv(n_elements, BLOCK_SIZE)", "1",
                    says="there is one program, and so one block, however long the vector is",
                    look="how many blocks the vector has."),
            Mistake("grid for half the block size",
                    "triton.cdiv(n_elements, BLOCK_SIZE)",
                    "triton.cdiv(n_elements, 2 * BLOCK_SIZE)",
                    says="""the grid is computed with another block size than the kernel uses:
                        only half of the vector has a program""",
                    look="""the two numbers that must be the same: in the grid and in
                        BLOCK_SIZE=..."""),
            Mistake("the grid is a number",
                    "grid = (triton.cdiv(n_elements, BLOCK_SIZE),)",
                    "grid = triton.cdiv(n_elements, BLOCK_SIZE)",
                    says="the grid is a number and not a tuple",
                    look="the comma in (n,)."),
            Mistake("the grid is a float",
                    "triton.cdiv(n_elements, BLOCK_SIZE)", "n_elements / BLOCK_SIZE",
                    says="""the grid holds a float: `/` makes one, and launches count in whole
                        programs""",
                    look="the division: triton.cdiv divides and rounds up."),
            Mistake("no grid", "[grid]", "",
                    says="the kernel is called like a function, without a grid",
                    look="the launch: kernel[grid](...)."),
        ]),
    ],
    given=[
        Mistake("32-bit offsets", ".to(tl.int64)", "",
                says="""offsets are 32-bit: offset times stride, or pid times BLOCK_SIZE, passes
                    2**31 and wraps around""",
                look="the .to(tl.int64) after tl.program_id, which was given."),
        float32_output(),
        Mistake("nothing returned for empty vectors",
                "        return out\n\n    BLOCK_SIZE", "        return None\n\n    BLOCK_SIZE",
                says="an empty vector gets None",
                look="the early return, which was given."),
    ],
)

if __name__ == "__main__":
    run_by_itself()
