"""Autotuned kernels where nothing can be timed."""

from __future__ import annotations


def use_first_configuration() -> None:
    """Let autotuned kernels run with their first configuration, untimed."""
    from triton.runtime.autotuner import Autotuner

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        config = self.prune_configs(kwargs)[0]
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        self.best_config = config
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    Autotuner.run = run
