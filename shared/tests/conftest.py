"""Runs kernels in Triton's interpreter, in this process."""

import os
import signal

os.environ["TRITON_INTERPRET"] = "1"
for _visible in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
    os.environ[_visible] = ""  # the tests are the same on a machine that has a GPU

import pytest
import torch

from shared.course import layout
from shared.course.scripts import scripts
from shared.execution import interpreter

torch.set_num_threads(1)
interpreter.repair()

SCRIPTS = [script for script in scripts() if not script.to_read]


def pytest_generate_tests(metafunc):
    if "script" in metafunc.fixturenames:
        metafunc.parametrize("script", SCRIPTS, ids=[s.name for s in SCRIPTS])


_DEADLINE_SECONDS = 600


@pytest.fixture(autouse=True)
def deadline():
    """No test waits for ever."""

    def late(number, frame):
        raise TimeoutError(f"the test took more than {_DEADLINE_SECONDS} seconds")

    previous = signal.signal(signal.SIGALRM, late)
    signal.alarm(_DEADLINE_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


@pytest.fixture
def exercise(script):
    return script.exercise


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A course whose progress and backups lie elsewhere, so that a learner's own are left alone."""
    monkeypatch.setattr(layout, "STATE", tmp_path / "state")
    monkeypatch.delenv("COURSE_FROM", raising=False)
    return tmp_path / "state"
