"""Measures a solution on this machine's GPU, into solutions/results/<GPU>."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from shared.check.listener import Listener, of_kind
from shared.course import layout
from shared.course.scripts import Script
from shared.facts import events
from shared.facts.findings import Plot
from shared.facts.jobs import Job, Task
from shared.facts.machine import Machine
from shared.facts.verdict import Ruling, Verdict
from shared.measure import tables, traffic

_SECONDS, _COUNTING_SECONDS = 600, 300


def record(script: Script, tell: Callable[[str], None]) -> Verdict:
    """Time a solution and its studies. The verdict holds the timings and the files written."""
    verdict = Verdict(script.lesson, script.file, str(script.solution))
    job = Job(
        Task.BENCH, script.lesson, script.file, str(script.solution), "gpu",
        results=str(layout.RESULTS), by_gpu=True, studies=True,
    )  # fmt: skip
    tell("Timing")
    reports, end = Listener(job, _SECONDS).result()
    verdict.timings = [report.row for report in of_kind(reports, events.Timed)]
    verdict.plots = [report.plot for report in of_kind(reports, events.Saved)]
    verdict.machine = next((r.machine for r in of_kind(reports, events.OnMachine)), None)
    if of_kind(reports, events.NoGpu):
        verdict.message = "There is no GPU here: timings need one."
        return verdict
    problems = [] if end.done else [f"{end.text} {end.last_line}"]
    for timed in of_kind(reports, events.StudyTimed):
        try:
            verdict.plots.append(_save_study(job, script, timed, verdict.machine, tell))
        except RuntimeError as error:  # this study is left as it was, the others go on
            problems.append(f"{timed.study}: {error}")
    verdict.message = "\n".join(problems)
    if not problems:
        verdict.status = Ruling.PASSED
    return verdict


def _save_study(
    job: Job,
    script: Script,
    timed: events.StudyTimed,
    machine: Machine,
    tell: Callable[[str], None],
) -> Plot:
    """Write a study's table; raises RuntimeError if its traffic cannot be counted."""
    function = next(f for f in script.exercise.functions if f.name == timed.function)
    study = next(s for s in function.studies if s.name == timed.study)
    rows = list(timed.rows)
    if study.traffic:
        tell(f"Counting what {timed.function} moves")
        count = replace(job, task=Task.TRAFFIC, function=timed.function, study=timed.study)
        rows = traffic.with_moved(rows, _moved(count))
    folder = tables.folder_for(Path(job.results), machine)
    csv = folder / f"{timed.function}.{timed.study}.csv"
    tables.save(rows, csv, machine)
    return Plot(csv=str(csv))


def _moved(job: Job) -> list[traffic.Moved]:
    """What each candidate moved at each size, in the order of the study."""
    with traffic.counting() as (under, log):
        _, end = Listener(job, _COUNTING_SECONDS, under).result()
        if not end.done:
            raise RuntimeError(f"{end.text} {end.output[-500:]}")
        return traffic.parse(log.read_text(encoding="utf-8"))
