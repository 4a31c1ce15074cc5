"""torch for a check.py, imported when it is first used and not before.

What a lesson declares is read by every command, `./run.sh` without arguments too, and importing
torch takes seconds. A check.py names torch only inside of functions, so reading it costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any


class _Later:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F
else:
    torch = _Later("torch")
    F = _Later("torch.nn.functional")
