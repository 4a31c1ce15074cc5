"""Runs kernels in Triton's interpreter, in this process."""

import os

os.environ["TRITON_INTERPRET"] = "1"

import pytest
import torch

from shared import backend, course

torch.set_num_threads(1)
backend.repair_interpreter()

SCRIPTS = course.scripts()


def pytest_generate_tests(metafunc):
    if "script" in metafunc.fixturenames:
        metafunc.parametrize("script", SCRIPTS, ids=[s.name for s in SCRIPTS])


@pytest.fixture
def exercise(script):
    return course.load_exercise(script)
