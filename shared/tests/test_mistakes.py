"""Every listed mistake, planted in the solution, is rejected and named as itself."""

import pytest

from shared import correctness, course, diagnosis
from shared.source import load_module

PLANTED = [
    (script, mistake)
    for script in course.scripts()
    for mistake in course.load_exercise(script).mistakes
]


def causes_of(script, path, folder):
    """The failed outcomes and the causes found for a file, as the worker finds them."""
    exercise = course.load_exercise(script)
    module = load_module(str(path), path.stem)
    trial = diagnosis.Trial(exercise, script.solution.read_text(), str(path), "cpu", folder)
    for function in exercise.functions:
        call = getattr(module, function.name)
        for number, case in enumerate(function.cases):
            if not case.gpu_only and not trial.hopeless:
                recorder = trial.recorder()
                outcome = correctness.run_case(
                    function, call, case, "cpu", number, str(path), recorder
                )
                trial.add(function, call, number, case, outcome, recorder.totals.programs)
    return trial.failed, trial.causes()


@pytest.mark.parametrize(
    ("planted", "mistake"), PLANTED, ids=[f"{s.name}-{m.name}" for s, m in PLANTED]
)
def test_is_rejected_and_named(planted, mistake, tmp_path):
    script = planted
    path = tmp_path / "planted.py"
    path.write_text(diagnosis.edited(script.solution.read_text(), mistake))
    failed, causes = causes_of(script, path, tmp_path)
    assert failed, "no case sees it"
    named = [cause.name for cause in causes]
    assert mistake.name in named, (
        f"named instead: {named}; failed: {[(r.case.label, r.outcome.text) for r in failed]}"
    )
    assert len(named) <= 2, named
