"""The script that is there to be read: found and checked by its name, its own kernel compiled."""

import os
import subprocess
import sys

import pytest
import torch

from shared.commands import cli, lists, report
from shared.commands.exits import FAULT, NOT_YET, PASS
from shared.course import layout
from shared.course.scripts import resolve, scripts
from shared.course.source import load_module
from shared.facts.findings import CaseResult, Status
from shared.facts.machine import Machine
from shared.facts.verdict import Verdict

FAST = layout.SOLUTIONS / "11_flash_attention" / "flash_attention_fast.py"


def test_is_found_by_its_name_and_its_path():
    (script,) = [script for script in scripts() if script.to_read]
    for name in ("flash_attention_fast", "flash_attention_fast.py", str(FAST)):
        assert resolve(name) == (script,)
    assert script.path == script.solution == FAST


def test_has_nothing_to_fill_in(state, capsys):
    assert cli.main(["flash_attention_fas"]) == FAULT
    assert "Did you mean flash_attention_fast?" in capsys.readouterr().err
    for command in ("hint", "reset"):
        assert cli.main([command, "flash_attention_fast"]) == FAULT
        assert "there to be read" in capsys.readouterr().err
    assert "finished, to be read  (optional)" in lists.lessons()


def test_its_lesson_alone_leaves_it_out(state, capsys):
    assert cli.main(["11"]) == NOT_YET
    assert "flash_attention_fast.py is optional and to be read" in capsys.readouterr().out


COMPILE = f"""
from pathlib import Path
import torch
from shared.course.source import load_module
from shared.execution import offline
module = load_module(Path({str(FAST)!r}), "flash_attention_fast")
for head_dim, length, causal in ((128, 1024, True), (64, 2048, False), (64, 8192, True)):
    q = torch.zeros(1, 2, length, head_dim, dtype=torch.float16)
    call = lambda *qkv: module.launch(*qkv, causal, 132)
    result = offline.compile_call("flash_attention", call, [q, q, q], ["sm_90"], {str(FAST)!r})
    assert not result.errors, result.errors
    (kernel,) = result.compiled
    assert {{"wgmma", "TMA"}} <= set(kernel.instructions)
    assert kernel.shared <= 232_448  # what a program may have on Hopper
    assert kernel.spilled <= 40, kernel  # outside of the loop over keys
    print("compiled")
"""


def test_the_gluon_kernel_compiles_for_hopper():
    run = subprocess.run(
        [sys.executable, "-c", COMPILE],
        cwd=layout.ROOT,
        env={**os.environ, "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["compiled"] * 3


@pytest.mark.parametrize(
    ("here", "words"),
    [
        ("sm_90", "In half precision this was the kernel of flash_attention_fast.py"),
        ("sm_80", "It was the lesson's kernel: flash_attention_fast.py has one for sm_90 only"),
    ],
)
def test_says_whose_kernel_was_checked(here, words):
    (script,) = resolve("flash_attention_fast")
    verdict = Verdict(script.lesson, script.file, str(FAST))
    verdict.machine = Machine("cuda", "a GPU", here, "2.13", "3.7", "2.2", "3.11")
    verdict.cases = [CaseResult("flash_attention", "a case", "", Status.OK)]
    assert words in report.told(verdict, script)
    verdict.cases = []
    assert words not in report.told(verdict, script)


def test_is_checked_in_the_interpreter(capsys):
    assert cli.main(["flash_attention_fast", "--no-bench", "--device", "cpu"]) == PASS
    assert "this was the interpreter" in capsys.readouterr().out


def test_gives_other_devices_the_lessons_kernel(monkeypatch):
    module = load_module(FAST, "flash_attention_fast")
    assert module.multiprocessors(torch.device("cpu")) == 0
    seen = []
    monkeypatch.setattr(module.lesson, "flash_attention", lambda *given: seen.append(given))
    q = torch.zeros(1, 1, 16, 64, dtype=torch.float16)
    module.flash_attention(q, q, q, True)
    assert len(seen) == 1 and seen[0][3] is True
    with pytest.raises(ValueError, match="k is"):
        module.flash_attention(q, q[:, :, :, :32], q)
