"""The page demo: its stages, what the report is told, and a machine without a browser."""

import json
from dataclasses import replace

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.studies.report.page import results_page
from sweet_rl.studies.results import Counted, Results
from sweet_rl.studies.sweet import pages as study_pages
from sweet_rl.studies.sweet.pages import DESIGNERS
from sweet_rl.studies.sweet.recipe import rounds
from tests.browsers.fake_renderer import FakeRenderer
from tests.viewer.samples import page_rows, write_rows

LINE = {"mean": {"mean": 0.5, "low": 0.4, "high": 0.6}, "floors": {"blank page": 0.01}}


def test_pages_come_after_the_trainings_so_that_no_training_is_made_anew_for_them(study):
    *before, beside, last = rounds(replace(study, page_tasks=3))
    assert [*before, beside[:-4], last] == list(rounds(study))
    assert {chain[0].name for chain in beside[-4:]} == {f"pages.{name}.jsonl" for name in DESIGNERS}
    assert beside[-4][0].name == "pages.improver.jsonl"  # the longest
    assert {step.run for chain in last for step in chain} == {"sample_best_of_n", "rank_best_of_n"}
    assert all("mini-web:test" in chain[0].command for chain in beside[-4:])


def test_without_a_browser_the_reason_names_the_repair(study, monkeypatch):
    def no_browser(flags):
        raise UsageError("there is none. Install it: apt install chromium")

    monkeypatch.setattr("sweet_rl.browsers.open_renderer", no_browser)
    assert "Install it: apt install" in study_pages.why_no_pages(study)


def test_the_report_is_told_grades_floors_curves_and_pictures(study, monkeypatch):
    monkeypatch.setattr("sweet_rl.browsers.open_renderer", lambda settings: FakeRenderer())
    study = replace(study, page_tasks=2)
    for name in DESIGNERS:
        report = {"tasks": 2, "metric": "combined", "metrics": {"combined": LINE, "ssim": LINE}}
        study.path(f"pages.{name}.report.json").write_text(json.dumps(report))
    write_rows(study.path("pages.improver.jsonl"), page_rows(study.folder)[:2])
    part, strips = study_pages.page_results(study)
    assert [method.name for method in part.methods] == [*DESIGNERS, "floor_blank page"]
    assert part.method("blank").estimate("ssim") == Counted(0.5, 0.4, 0.6)
    assert part.method("floor_blank page").mean("combined") == 0.01
    (first, early), (second, later) = part.method("improver").runs[0].curves["combined"]
    assert (first, second) == (1, 2)
    assert early < later
    frames = strips[0].frames
    assert [frame.label for frame in frames] == ["turn 1", "turn 2", "target"]
    assert frames[0].score < frames[1].score
    assert all(frame.picture.startswith("data:image/webp;base64,") for frame in frames)
    page = results_page(Results("sweet", "Pages", comparisons=(part,), strips=strips))
    assert "Pages, draft by draft" in page
    assert "floor: blank page" in page


def test_a_dialogue_that_has_ended_keeps_its_last_grade():
    assert study_pages._way_up([{0: 0.2, 1: 0.6}, {0: 0.4}, {0: 0.0, 2: 0.9}]) == (
        (1.0, pytest.approx(0.2)),
        (2.0, pytest.approx(1 / 3)),
        (3.0, pytest.approx((0.6 + 0.4 + 0.9) / 3)),
    )
