"""GPU or interpreter: what this machine has and can do, and the plain sentence when it cannot."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from shared.facts.machine import Machine
from shared.machine.environment import first_version


def use_interpreter() -> None:
    """Make this process run kernels on the CPU. Call it before anything imports triton."""
    os.environ["TRITON_INTERPRET"] = "1"


def version(package: str) -> str:
    """The installed version, or "not installed". Triton for AMD and Intel goes by other names."""
    return first_version(metadata, package) or "not installed"


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
