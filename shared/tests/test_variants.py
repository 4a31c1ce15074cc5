"""Other finished forms of a script: found by name, and the kernel for one kind of GPU compiles."""

import json
import os
import subprocess
import sys

import pytest
import torch

from shared import cli, course, report
from shared.source import load_module

FAST = course.SOLUTIONS / "11_flash_attention" / "flash_attention_fast.py"


def test_is_found_by_its_name_and_its_path():
    script = course.resolve("flash_attention")[0]
    for name in ("flash_attention_fast", "flash_attention_fast.py", str(FAST)):
        assert course.variant(name) == (script, FAST)
    for script in course.scripts():
        assert course.variant(script.name) is None, script


def test_is_checked_by_itself(capsys):
    assert cli.main(["flash_attention_fast", "softmax"]) == cli.FAULT
    assert "check it by itself" in capsys.readouterr().err
    assert cli.main(["flash_attention_fas"]) == cli.FAULT
    assert "Did you mean flash_attention_fast?" in capsys.readouterr().err


COMPILE = f"""
import json, torch
from shared import offline
from shared.source import load_module
module = load_module({str(FAST)!r}, "flash_attention_fast")
for head_dim, length, causal in ((128, 1024, True), (64, 2048, False), (64, 8192, True)):
    q = torch.zeros(1, 2, length, head_dim, dtype=torch.float16)
    result = offline.compile_call(
        lambda *qkv: module.launch(*qkv, causal, 132), [q, q, q], ["sm_90"], {str(FAST)!r}
    )
    print(json.dumps([[e.as_data() for e in part] for part in (result.errors, result.compiled)]))
"""


def test_the_gluon_kernel_compiles_for_hopper():
    run = subprocess.run(
        [sys.executable, "-c", COMPILE],
        cwd=course.ROOT,
        env={**os.environ, "TRITON_INTERPRET": "0"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(results) == 3
    for errors, compiled in results:
        assert not errors
        (kernel,) = compiled
        assert {"wgmma", "TMA"} <= set(kernel["instructions"])
        assert kernel["shared"] <= 232_448  # what a program may have on Hopper
        assert kernel["spilled"] <= 40, kernel  # outside of the loop over keys


def test_says_whose_kernel_was_checked(capsys):
    assert course.target_of(FAST) == "sm_90"
    assert course.target_of(course.resolve("softmax")[0].solution) == ""
    assert "In half precision this was the kernel of flash" in report.form(FAST, "sm_90", "sm_90")
    assert "this GPU is sm_80" in report.form(FAST, "sm_90", "sm_80")
    assert cli.main(["flash_attention_fast", "--no-bench", "--device", "cpu"]) == cli.PASS
    assert "It was the lesson's kernel" in capsys.readouterr().out


def test_gives_other_devices_the_lessons_kernel(monkeypatch):
    module = load_module(str(FAST), "flash_attention_fast")
    assert module.multiprocessors(torch.device("cpu")) == 0
    seen = []
    monkeypatch.setattr(module.lesson, "flash_attention", lambda *given: seen.append(given))
    q = torch.zeros(1, 1, 16, 64, dtype=torch.float16)
    module.flash_attention(q, q, q, True)
    assert len(seen) == 1 and seen[0][3] is True
    with pytest.raises(ValueError, match="k is"):
        module.flash_attention(q, q[:, :, :, :32], q)
