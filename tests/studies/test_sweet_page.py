"""The report of a study: what it says, what it survives, and what cannot get out of its data."""

import base64
import hashlib
import json
import re
from copy import deepcopy
from html.parser import HTMLParser

import pytest

from sweet_rl.errors import DataError
from sweet_rl.studies.report.charts import axis, percent, plain, smoothed
from sweet_rl.studies.report.markup import join, tag
from sweet_rl.studies.report.report import duration
from sweet_rl.studies.report.study import study_page
from tests.studies.sweet_samples import sample_study
from tests.viewer.samples import ATTACK

LISTS = ["methods", "critics", "curves", "dialogues", "notes"]
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Reader(HTMLParser):
    """Checks that elements are closed in order; collects tags, attributes, visible text and ids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.tags, self.attributes, self.ids, self.texts = [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))
        self.text = re.sub(r"\s+", " ", " ".join(self.texts)).replace("\u202f", " ")

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.attributes += attributes
        self.ids += [value for key, value in attributes if key == "id"]
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.tags.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"script", "style"}:
            self.texts.append(data)


@pytest.fixture(scope="module")
def page() -> str:
    return study_page(sample_study())


def replaced(value, replace):
    """`value` with every leaf replaced, names of fields kept."""
    if isinstance(value, dict):
        return {key: replaced(each, replace) for key, each in value.items()}
    return [replaced(each, replace) for each in value] if isinstance(value, list) else replace(value)


def test_page_says_who_solves_how_much(page):
    text = Reader(page).text
    assert "SWEET-RL solves 56.9 % of the test episodes" in text
    assert "its best rival (Rejection fine-tuning) 52.5 %" in text
    assert "the model all began from (Warm start) 23.4 %" in text
    assert "4.4 points ahead, but the two intervals overlap" in text


@pytest.mark.parametrize(
    "expected",
    [
        "54.3\u201359.4",  # interval of success
        "68.2\u201372.3",  # of tests passed
        "4 000",  # examples
        "101",  # updates
        "0.62 useless questions instead of 1.35",
        "but also 0.22 miscopied answers instead of 0.17",
        "0.85",  # AUC
        "3 120 turns",
        "\u22120.41",  # score of a turn
        "16 candidates, 5 different",
        "run(x, scale3, cap2)",
        "6 min 36 s in all",
        "improver What improver does. 80.0 % 75.0\u201385.0 70.0 %",  # a designer of pages
        "floor: blank page 1.2 % \u2013",
        "turn 1 20.0 % target",
    ],
)
def test_page_holds_the_numbers(page, expected):
    assert expected in Reader(page).text


def test_a_loser_is_called_behind_and_separate_intervals_apart():
    study = sample_study()
    rejection = next(method for method in study["methods"] if method["name"] == "rejection")
    rejection["success"] = {"mean": 0.703, "low": 0.68, "high": 0.72}
    text = Reader(study_page(study)).text
    assert "SWEET-RL is 13.4 points behind, and the two intervals do not overlap." in text


def test_dialogues_that_end_early_keep_their_last_grade(page):
    strong, *_ = re.findall(r'class="line c1" d="([^"]+)"', page.split("turn by turn (combined)")[2])
    heights = [float(point.split(",")[1]) for point in strong[1:].split("L")]
    shares = [(144 - height) / 128 for height in heights]  # the panel's floor and height, in its own units
    assert shares == pytest.approx([0.15, 0.65, 0.8], abs=1e-3)


def test_a_picture_from_elsewhere_is_left_out():
    study = sample_study()
    study["pages"]["strips"][0]["frames"][0]["picture"] = "https://example.org/x.png"
    page = study_page(study)
    assert "example.org" not in page
    assert Reader(page).tags.count("img") == 1


def test_equals_are_called_level():
    study = sample_study()
    study["methods"][1]["success"]["mean"] = 0.5691
    assert "SWEET-RL and Rejection fine-tuning are level." in Reader(study_page(study)).text


def test_numbers_of_many_columns_do_not_run_into_each_other():
    study = sample_study()
    counts = [{"turns": turns, "episodes": 11, "successes": 3} for turns in range(1, 21)]
    study["methods"] = [study["methods"][3] | {"by_turns": counts}]
    page = study_page(study)
    assert page.count('data-tip="7 turns: 11 episodes, 3 succeeded (27 %)"') == 1
    assert ">27 %</text>" not in page


def test_variants_of_sweet_are_no_rivals():
    study = sample_study()
    study["methods"][-1]["success"]["mean"] = 0.9
    assert "its best rival (Rejection fine-tuning) 52.5 %" in Reader(study_page(study)).text


def test_a_method_has_one_colour_everywhere(page):
    colours = set(
        re.findall(r'<span class="swatch (\w+)" aria-hidden="true"></span>SWEET-RL(?: policy)?<', page)
    )
    assert colours == {"c1"}
    assert re.search(r'class="dialogue edge c1"><header><h3><span class="swatch c1"', page)
    assert set(re.findall(r'swatch (\w+)" aria-hidden="true"></span>Warm start<', page)) == {"c0"}
    assert len(set(re.findall(r'<strong><span class="swatch (\w+)"', page))) == 5


def test_marks_lie_where_their_numbers_are():
    """The axis goes to 60 %: 56.9 % lies at 94.83 % of it, its interval from 90.5 % to 99 %."""
    row = study_page(sample_study()).split('aria-label="SWEET-RL: 56.9')[1].split("</svg>")[0]
    assert re.search(r'class="dot c1" cx="94.83%"', row)
    assert 'x1="90.50%" x2="99.00%"' in row
    assert 'class="reference" x1="39.00%"' in row  # the warm start's 23.4 %


@pytest.mark.parametrize(
    "text", [ATTACK, '"><script>x</script>', "</style><!--sections-->", "\x00\ud800\u202e", "&amp;"]
)
def test_all_text_is_escaped(text):
    plain_page = Reader(study_page(replaced(sample_study(), lambda v: "words" if isinstance(v, str) else v)))
    study = replaced(sample_study(), lambda value: text if isinstance(value, str) else value)
    study["settings"] = {text: text, f"{text} ": [text]}
    study["seconds"] = {text: 1.0}
    study["methods"][0]["verdicts"] = {text: 1.0}
    page = study_page(study)
    page.encode()
    attacked = Reader(page)
    assert attacked.tags.count("script") == plain_page.tags.count("script") == 1
    assert attacked.tags.count("style") == 1
    assert set(attacked.tags) <= set(plain_page.tags) | {"ul", "li"}
    assert not [
        name for name, _ in attacked.attributes if name.startswith("on") or name in {"style", "src", "srcdoc"}
    ]
    assert "\x00" not in page


@pytest.mark.parametrize("empty", [*LISTS, "settings", "seconds", "all"])
def test_empty_parts_are_left_out(empty):
    study = sample_study()
    for key in [*LISTS, "settings", "seconds"] if empty == "all" else [empty]:
        study[key] = type(study[key])()
    reader = Reader(study_page(study))
    assert ("No method has been measured yet." in reader.text) == (empty in {"methods", "all"})
    if empty in LISTS[:4] or empty == "all":
        gone = set(LISTS[:4]) if empty == "all" else {empty}
        assert gone.isdisjoint(reader.ids)
    targets = [value for key, value in reader.attributes if key == "href"]
    assert {target.removeprefix("#") for target in targets} <= set(reader.ids)


def test_nothing_at_all_is_a_page():
    assert "A study" in Reader(study_page({})).text


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_numbers_may_be_missing(missing):
    def replace(value):
        return missing if isinstance(value, int | float) else value

    page = study_page(replaced(sample_study(), replace))
    text = Reader(page).text
    assert "No method has been measured yet." in text
    for word in ("nan", "inf", "None"):
        assert not re.search(rf"\b{word}\b", text)


def test_null_inside_lists_and_objects():
    study = sample_study()
    for method in study["methods"]:
        method.update(success=None, seeds=None, by_turns=None, verdicts=None, examples=None)
    study["methods"][3]["success"] = {"mean": 0.5, "low": None, "high": None}
    study["dialogues"][0].update(reward=None, method=None)
    study["dialogues"][0]["turns"][0].update(human=None, score=None, candidates=None)
    study["curves"][0]["points"] = [{"update": 7, "loss": 0.5, "accuracy": None, "margin": None}]
    text = Reader(study_page(study)).text
    assert "SWEET-RL solves 50.0 % of the test episodes." in text
    assert "not graded" in text


def test_absent_fields_are_null_fields():
    study = {
        "methods": [{}],
        "critics": [{}],
        "curves": [{}, {"points": [{}]}],
        "dialogues": [{"turns": [{"candidates": [{}]}]}],
    }
    assert "unnamed" in Reader(study_page(study)).text


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("methods",), {}, "methods"),
        (("methods", 2), "x", r"methods\[2\]"),
        (("methods", 2, "success", "mean"), "0.5", r"methods\[2\].success.mean"),
        (("methods", 0, "verdicts", "right answer"), [], "methods\\[0\\].verdicts.right answer"),
        (
            ("dialogues", 1, "turns", 0, "candidates", 3, "score"),
            True,
            r"dialogues\[1\].turns\[0\].candidates\[3\].score",
        ),
        (("title",), 3, "title"),
    ],
)
def test_wrong_kinds_are_named(path, value, named):
    study = deepcopy(sample_study())
    study["dialogues"][1]["turns"][0]["candidates"] = [{} for _ in range(4)]
    inner = study
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(DataError, match=rf"field '{named}' must be"):
        study_page(study)


def test_same_study_same_page(page):
    assert study_page(json.loads(json.dumps(sample_study()))) == page


def test_page_asks_nobody_for_anything(page):
    assert not re.findall(r"(?:https?:)?//[\w.-]+\.\w+", page)
    assert "@import" not in page
    assert "url(" not in page
    assert not {"link", "iframe", "object", "embed"} & set(Reader(page).tags)
    sources = [value for name, value in Reader(page).attributes if name == "src"]
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)


def test_policy_allows_the_page_s_own_script_and_style_only(page):
    policy = dict(Reader(page).attributes)["content"] and re.search(r'Policy" content="([^"]*)"', page)[1]
    rules = dict(rule.split(" ", 1) for rule in policy.replace("&#x27;", "'").split("; "))
    for name in ("script", "style"):
        block = re.search(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"


def test_long_curves_stay_light():
    study = sample_study()
    study["curves"] = [
        {"title": "long", "points": [{"update": u, "loss": 1 / (u + 1)} for u in range(20_000)]}
    ]
    page = study_page(study)
    for line in ("raw", "line"):
        assert 500 < re.search(rf'class="{line} ink" d="([^"]*)"', page)[1].count("L") < 700


# ---- parts


@pytest.mark.parametrize(
    ("values", "zero", "expected"),
    [
        ([0.234, 0.594], True, (0, 0.6)),
        ([0.31, 0.74], False, (0.3, 0.8)),
        ([3.0], False, (2.4, 3.6)),
        ([], True, (0, 1)),
        ([0.0, 0.0], True, (0, 1)),
        ([-0.2, 1.3], True, (-0.5, 1.5)),
    ],
)
def test_axes_have_round_ends_around_all_values(values, zero, expected):
    found = axis(values, plain, zero=zero)
    assert (found.low, found.high) == pytest.approx(expected)
    assert found.ticks[0] == found.low
    assert found.ticks[-1] == found.high


def test_smoothing_keeps_a_line_and_averages_around_it():
    line = [(float(x), 2.0 * x) for x in range(60)]
    assert [y for _, y in smoothed(line)][2:-2] == pytest.approx([y for _, y in line][2:-2])
    assert smoothed(line)[-1] == pytest.approx((59.0, 116.0))  # the mean of the last three
    spike = [(float(x), float(x == 30)) for x in range(60)]
    assert [y for _, y in smoothed(spike)][27:34] == pytest.approx([0, 0.2, 0.2, 0.2, 0.2, 0.2, 0])
    assert smoothed(spike[:5]) == spike[:5]


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0, "0"),
        (0.37851, "0.379"),
        (1.5, "1.5"),
        (-1.5, "\u22121.5"),
        (1234.5, "1234"),
        (100.0, "100"),
        (3e-7, "3e\u22127"),
    ],
)
def test_numbers_as_they_are_said(number, written):
    assert plain(number) == written


def test_shares_as_they_are_said():
    assert percent(0.254) == "25 %"


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (8.44, "8.4 s"),
        (59.97, "1 min 00 s"),
        (250, "4 min 10 s"),
        (3599.6, "1 h 00 min"),
        (3725, "1 h 02 min"),
    ],
)
def test_durations_as_they_are_said(seconds, written):
    assert duration(seconds).replace("\u202f", " ") == written


def test_elements_escape_children_and_attributes_once():
    inner = tag("b", "<&")
    assert tag("a", inner, None, ["x", ["<"]], class_='"', data_tip=1.5, hidden=None) == (
        '<a class="&quot;" data-tip="1.5"><b>&lt;&amp;</b>x&lt;</a>'
    )
    assert join([inner]) == inner


# ---- in a browser


@pytest.mark.browser
@pytest.mark.parametrize("width", [1200, 400])
def test_page_fits_and_needs_nothing_else(browser, page, tmp_path, width):
    out = tmp_path / "study.html"
    out.write_text(page, encoding="utf-8")
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.get_log("browser")
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.get(out.as_uri())
        wide = "return [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
        assert browser.execute_script(wide) == 0
        point = """
            const mark = document.querySelector('[data-tip]');
            mark.scrollIntoView({block: 'center'});
            mark.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
            return document.getElementById('tip').textContent"""
        assert browser.execute_script(point) == "Warm start: 23.4\u202f%"
        opened = "document.getElementById('open-all').click(); return document.querySelectorAll('details:not([open])').length"
        assert browser.execute_script(opened) == 0
        assert browser.get_log("browser") == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
