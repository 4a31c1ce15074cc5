"""Every listed mistake, planted in the solution, is rejected and named as itself."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import pytest

from shared.course.scripts import scripts
from shared.course.source import load_module
from shared.diagnosis.edits import edited
from shared.diagnosis.matching import Trial
from shared.diagnosis.run import Run, observer
from shared.execution import correctness

PLANTED = [(script, mistake) for script in scripts() for mistake in script.exercise.mistakes]


def causes_of(script, path, folder):
    """The failed outcomes and the causes found for a file, as the worker finds them."""
    module = load_module(path, path.stem)
    trial = Trial(script.exercise, script.solution.read_text(), str(path), folder)
    for function in script.exercise.functions:
        call = getattr(module, function.name)
        for seed, case in enumerate(function.cases):
            if not case.gpu_only and not trial.hopeless:
                recorder = observer("cpu", str(path))
                outcome = correctness.run_case(
                    function, call, case, "cpu", seed, str(path), recorder
                )
                programs = recorder.totals.programs
                trial.add(Run(function, call, case, seed, outcome, programs, "cpu", str(path)))
    return trial.failed, trial.causes()


def planted(number, folder):
    """The labels of the failed cases and the names of the causes, for one of PLANTED."""
    script, mistake = PLANTED[number]
    path = folder / "planted.py"
    path.write_text(edited(script.solution.read_text(), mistake))
    failed, causes = causes_of(script, path, folder)
    return [(r.case.label, r.outcome.text) for r in failed], [cause.name for cause in causes]


@pytest.fixture(scope="module")
def verdicts(request, tmp_path_factory):
    """All the selected mistakes at work, as many at a time as there are cores."""
    chosen = [
        item.callspec.params["number"]
        for item in request.session.items
        if item.function is test_is_rejected_and_named
    ]
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=fork) as pool:
        yield {n: pool.submit(planted, n, tmp_path_factory.mktemp("planted")) for n in chosen}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(
    "number", range(len(PLANTED)), ids=[f"{s.name}-{m.name}" for s, m in PLANTED]
)
def test_is_rejected_and_named(number, verdicts):
    failed, named = verdicts[number].result()
    assert failed, "no case sees it"
    assert PLANTED[number][1].name in named, f"named instead: {named}; failed: {failed}"
    assert len(named) <= 2, named
