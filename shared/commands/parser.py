"""The argument parser that every command starts from."""

from __future__ import annotations

import argparse


def parser(command: str = "", **options) -> argparse.ArgumentParser:
    """For `./run.sh <command>`. options: those of argparse.ArgumentParser."""
    return argparse.ArgumentParser(
        prog=f"./run.sh {command}".rstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **options,
    )
