"""torch for a check.py: the module itself where it is imported, else a stand-in that imports it.

What a lesson declares is read by every command, `./run.sh` without arguments too, and importing
torch takes seconds. A check.py names torch only inside of functions, so there reading it costs
nothing. A worker has imported torch by then and gets the real one: torch.compile cannot look
through a stand-in, and would run what it is given as it is, without a word.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

MODULES = {"torch": "torch", "F": "torch.nn.functional"}


def module(name: str) -> Any:
    """The module that goes by one of the names in MODULES."""
    if "torch" in sys.modules:
        return importlib.import_module(MODULES[name])
    return _Later(MODULES[name])


class _Later:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
