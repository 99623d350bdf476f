"""Several files in one application, in a real Chromium: runs beside each other, the critic's view, exports."""

import json
import re
import signal
import subprocess
import sys
from urllib.parse import parse_qsl

import pytest

from sweet_rl.viewer.export import export
from sweet_rl.viewer.library import Library
from tests.viewer.driving import Viewer, page_of
from tests.viewer.samples import ATTACK, many_rows, sample_rows, write_rows
from tests.viewer.test_library import ranked, scored

NAMES = ("constructor", "__proto__", "toString")
"""Names that a careless script finds in every object."""

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    """A folder of two runs, scores of turns, ranked turns, pairs, metrics and a report, as one page."""
    folder = tmp_path_factory.mktemp("runs")
    rows = sample_rows()
    write_rows(folder / "a.jsonl", rows)
    better = [row | {"reward": 1.0} if row.get("reward") == 0.6 else row for row in rows]
    write_rows(folder / "b.jsonl", better)
    blind = {"without_hidden": {"advantage": None, "critic": None, "reference": None, "why": "too_long"}}
    scores = [scored(rows[0], 0, 0.5), scored(rows[0], 1, -0.25)]
    scores += [scored(rows[2], turn, 0.5, **blind) for turn in range(2)]
    write_rows(folder / "a.credit.critic.jsonl", scores)
    texts = ["worse", ATTACK]
    write_rows(folder / "ranked.jsonl", [ranked(rows[0], 1, [0.25, 0.75], additional_outputs=texts)])
    write_rows(folder / "pairs.jsonl", [{"prompt": "P", "chosen": ATTACK, "rejected": "r", "guard": ATTACK}])
    write_rows(folder / "metrics.jsonl", [{"step": step, "loss": 0.0, ATTACK: 1.5} for step in (1, 2)])
    (folder / "a.report.json").write_text(json.dumps({ATTACK: {"mean": 0.5, "low": 0.25, "high": 0.75}}))
    export(Library([folder]), folder / "out" / "all.html")
    return (folder / "out" / "all.html").as_uri()


@pytest.fixture
def several(browser, application):
    browser.get_log("browser")
    return Viewer(browser, application)


def test_files_are_listed_by_what_they_hold_and_looked_at_together(several):
    several.driver.get(f"{several.address}?files")
    several.until("return document.querySelector('.page-head')")
    parts = "Results (2 runs), Trainings (1), Trajectories (2), Turns with candidates (1)"
    rest = "Preference pairs (1), Training metrics (1), Reports (1)"
    assert ", ".join(several.texts(".page h3")) == f"{parts}, {rest}"
    boxes = several.all(".files:not(.runs-table) input")
    boxes[0].click()
    boxes[2].click()
    assert several.texts(".page-bar .primary") == ["Choose files of one kind"]
    boxes[2].click()
    boxes[1].click()
    several.click(".page-bar .primary")
    several.wait_for("#mini-test-0007/0")
    assert several.count == "18 rows of 18"
    assert several.texts(".runs tbody th") == ["A a.jsonl", "B b.jsonl"]
    several.press("h")
    several.until("return document.querySelector('.page-head')?.checkVisibility()")
    several.driver.back()
    several.wait_for("#mini-test-0007/0")
    assert several.complaints() == []


def test_the_first_page_says_how_the_runs_did(several):
    several.driver.get(f"{several.address}?results")
    several.until("return document.querySelectorAll('.spread-bar').length === 2")
    cells = "Array.from(row.cells, (cell) => cell.textContent)"
    rows = f"return Array.from(document.querySelectorAll('.runs-table tbody tr'), (row) => {cells})"
    by_run = {row[1]: row[2:6] for row in several.script(rows)}
    assert by_run["a"][:2] == ["Success41.7 %[6.8, 87.5]", "llama-3.1-8b-instruct"]
    assert by_run["a"][3] == "9 of 4 tasks2 failed2 not graded"
    assert by_run["b"][0].startswith("Success58.3 %[")
    several.all(".runs-table .links button")[0].click()
    several.until("return document.querySelector('.detail-head')")
    assert several.complaints() == []


def test_what_one_run_solves_and_another_does_not_is_an_address(several):
    several.open("#mini-test-0007/0?in=a.jsonl%2Cb.jsonl")
    several.choose("#than", "better:1:0")
    assert several.count == "6 rows of 18"
    several.press("s")
    several.until("return document.querySelectorAll('.column').length === 2")
    several.press("]")
    several.until("return location.hash.includes('/1')")
    link = several.script("return location.hash")
    several.open(link)
    several.until("return document.querySelectorAll('.column').length === 2")
    assert several.count == "6 rows of 18"
    assert several.script("return document.getElementById('than').value") == "better:1:0"
    assert several.script("return location.hash") == link
    ids = several.script("return [...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids))
    several.choose("#than", "solves:0:1")
    assert several.count == "0 rows of 18"


@pytest.mark.parametrize(
    "view",
    [
        "#mini-test-0012/1?in=a.jsonl&q=fee",
        "#mini-test-0007/1?in=a.jsonl&outcome=solved&stop=answered&sort=worst&flat=1",
        "#mini-test-0007/0?in=a.jsonl%2Cb.jsonl&than=better%3A1%3A0&run=1&beside=1",
        "#mini-test-0007/0.1?in=ranked.jsonl",
        "#?in=metrics.jsonl",
        "#?in=a.report.json",
        "#",
    ],
)
def test_a_link_gives_the_same_view(several, view):
    several.driver.get("about:blank")
    several.open(view) if "/" in view else several.driver.get(f"{several.address}{view}")
    several.until("return document.querySelector('.detail-head, .page-head')")
    settled = several.script("return [location.hash, document.body.innerText]")
    given = dict(parse_qsl(view.partition("?")[2]))
    assert dict(parse_qsl(settled[0].partition("?")[2])) == given
    several.driver.get("about:blank")
    several.driver.get(f"{several.address}{settled[0]}")
    several.until("return document.body.innerText === arguments[0]", settled[1])


def test_what_an_address_does_not_know_is_left_out(several):
    several.open("#mini-test-0007/0?in=a.jsonl%2Cmetrics.jsonl%2Cb.jsonl&than=bogus&stop=bogus&sort=bogus")
    assert several.texts(".runs tbody th") == ["A a.jsonl", "B b.jsonl"]
    for selector in ("#than", "#stop", "#sorting"):
        assert several.script(f"return document.querySelector('{selector}').selectedIndex") == 0
    assert several.count == "18 rows of 18"
    assert several.texts("#figures dt") == ["Rows"]  # of each run, never of both together
    assert several.texts(".runs thead th") == ["Run", "Success", "Tests passed"]
    assert several.texts(".runs td") == ["41.7 %", "51.7 %", "58.3 %", "58.3 %"]


def test_the_critics_view_of_every_turn(several):
    several.open("#mini-test-0007/0?in=a.jsonl")
    assert several.texts(".strip .heat") == ["+0.50", "\u22120.25", "\u2013"]
    assert "1 turn not scored" in several.text(".strip figcaption")
    assert several.texts(".speaker .score") == ["critic +0.50", "critic \u22120.25"]
    unfold = "[...document.querySelectorAll('.speaker .fold')].find((one) => one.textContent === arguments[0]).click()"
    several.script(unfold, "what the critic saw")
    agent, critic = several.texts(".saw .two pre")
    told = several.text(".told")
    assert told.startswith("In light that the final answer is: def shipping_fee")
    assert critic == told + agent
    several.script(unfold, "2 alternatives")
    assert several.texts(".candidates .said") == [ATTACK, "worse"]
    assert several.texts(".candidates td:first-child") == ["+0.75", "+0.25"]
    # missing scores say why below the strip, for fingers and paper
    several.open("#mini-test-0007/1?in=a.jsonl")
    note = several.text(".strip figcaption")
    assert "2 scores missing: prompt and turn are longer than the critic's context" in note


def test_words_of_the_language_and_marks_of_direction_stay_with_their_own_text(browser, tmp_path):
    pairs = [{"prompt": "P", "chosen": "c", "rejected": "r", "guard": word} for word in NAMES]
    write_rows(tmp_path / "pairs.jsonl", pairs)
    turned = ranked(sample_rows()[0], 1, [0.25, 0.75], additional_outputs=["a\u202eb", "c"])
    write_rows(tmp_path / "ranked.jsonl", [turned])
    export(Library([tmp_path]), tmp_path / "all.html")
    viewer = Viewer(browser, (tmp_path / "all.html").as_uri()).open("#?in=pairs.jsonl")
    assert sorted(viewer.texts("#stops .stop strong")) == ["1"] * len(NAMES)
    viewer.open("#?in=ranked.jsonl")
    isolated = "return getComputedStyle(document.querySelector('.said')).unicodeBidi"
    assert viewer.script(isolated) == "isolate"


@pytest.mark.parametrize("name", ["ranked.jsonl", "pairs.jsonl", "metrics.jsonl", "a.report.json"])
def test_hostile_text_is_text_in_every_kind_of_file(several, name):
    several.driver.get(f"{several.address}?{name}#?in={name}")
    several.until("return document.querySelector('.detail-head, .page-head')")
    several.until("return document.body.textContent.includes('window.pwned = 1')")
    assert several.script("return window.pwned") is None
    assert several.all("main img, main a, main b, [onerror], [onload]") == []
    assert several.complaints() == []


def test_curves_have_the_points_that_were_measured_and_a_zero_axis_begins_at_zero(several):
    several.driver.get(f"{several.address}?curves#?in=metrics.jsonl")
    several.until("return document.querySelector('.chart')")
    assert several.script("return document.querySelector('.chart').querySelectorAll('circle').length") == 2
    assert several.texts(".chart:first-child .tick[text-anchor=end]")[0] == "0.0"
    ticks = "return Charts.ticks(arguments[0], arguments[1]).map(([, words]) => words)"
    assert several.script(ticks, 0, 1) == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert several.script(ticks, -0.01, 0.01) == ["\u22120.010", "\u22120.005", "0.000", "0.005", "0.010"]


def test_a_folder_opens_offline_and_reads_what_lies_beside_its_page(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("sweet_rl.viewer.export.ONE_FILE_BYTES", 1000)
    saved = write_rows(tmp_path / "many.jsonl", many_rows(120))
    made = export(Library([saved]), tmp_path / "page.html")
    assert made.path == tmp_path / "page" / "index.html"
    assert not (tmp_path / "page.html").exists()
    browser.get_log("browser")
    viewer = Viewer(browser, made.path.as_uri()).open()
    viewer.press("j", "j")
    viewer.until("return location.hash.endsWith('/2')")
    viewer.search("above 77 kilograms")
    viewer.wait_for_count("1 row of 120")
    viewer.press("Enter")
    viewer.until("return document.querySelector('.detail-head h2')?.textContent.includes('Task 17')")
    assert viewer.complaints() == []


def test_a_very_long_turn_is_shown_in_part_until_it_is_asked_for(browser, tmp_path):
    (row,) = many_rows(1, repeats=1)
    row["dialogue_history"][0]["content"] = "word " * 200_000
    viewer = page_of(browser, tmp_path, [row])
    assert len(viewer.texts(".bubble")[0]) < 60_000
    viewer.click(".bubble .fold")
    assert len(viewer.texts(".bubble")[0]) >= 1_000_000


def test_a_file_that_grows_offers_what_is_new(browser, tmp_path):
    rows = many_rows(3, repeats=1)
    saved = write_rows(tmp_path / "grows.jsonl", rows[:2])
    command = [sys.executable, "-m", "sweet_rl", "view", saved, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        browser.get(re.search(r"http://\S+", process.stdout.readline()).group())
        viewer = Viewer(browser, "")
        viewer.wait_for_count("2 rows of 2")
        with saved.open("a") as file:
            file.write(json.dumps(rows[2]) + "\n")
        viewer.until("return !document.getElementById('fresh').hidden")
        viewer.click("#fresh")
        viewer.wait_for_count("3 rows of 3")
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 0


def test_measured_worth_stands_above_what_methods_believe(browser, tmp_path):
    """Turns that a method contradicts come first, and are marked; those whose interval holds 0 are not."""
    (row,) = sample_rows()[:1]
    state = {"mean": 0.5, "low": 0.4, "high": 0.6, "n": 24}
    rows = []
    for turn, (low, high) in enumerate(((0.1, 0.3), (-0.1, 0.1))):
        worth = {"advantage": (low + high) / 2, "low": low, "high": high, "before": state, "after": state}
        bare = {
            name: value
            for name, value in scored(row, turn, 0.0).items()
            if name not in {"hidden", "critic", "credit"}
        }
        rows.append(
            bare
            | {
                "measured": worth | {"allocation": "stopped"},
                "scores": {ATTACK: -0.5, "right": 0.1, "none": None},
            }
        )
    write_rows(tmp_path / "a.jsonl", [row])
    settings = {"measure": "reward", "target_error": 0.1}
    write_rows(
        tmp_path / "a.measured.jsonl",
        [{name: one[name] for name in one if name != "scores"} | {"settings": settings} for one in rows],
    )
    write_rows(
        tmp_path / "a.credit.x.jsonl",
        [{name: one[name] for name in one if name != "measured"} for one in rows],
    )
    export(Library([tmp_path / "a.jsonl"]), tmp_path / "out.html")
    browser.get_log("browser")
    viewer = Viewer(browser, (tmp_path / "out.html").as_uri()).open()
    assert viewer.texts(".recorder .worth strong") == ["+0.20", "0.00"]
    assert viewer.texts(".recorder .says")[0] == row["dialogue_history"][1]["content"]
    assert viewer.texts(".recorder tbody th") == ["says", "worth", ATTACK, "right", "none"]
    assert viewer.texts(".recorder .against") == ["\N{MINUS SIGN}0.50"]
    (told,) = viewer.texts(".contradicted li")
    assert told == f"turn 1 +0.20: {ATTACK}"
    assert viewer.texts(".turn.assistant .score")[0] == "worth +0.20 (+0.10 to +0.30)"
    assert viewer.complaints() == []
