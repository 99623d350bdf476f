"""The page of a study: what it says, that charts lie where their numbers are, and what cannot get out of it."""

import base64
import hashlib
import re
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.statistics import Estimate
from sweet_rl.studies.report import charts, words
from sweet_rl.studies.report.page import _table, results_page
from sweet_rl.studies.results import Comparison, Method, Results
from sweet_rl.studies.runner import prepared
from tests.studies.samples import PICTURE, method, sample_results
from tests.viewer.samples import ATTACK

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
        self.handle_starttag(name, attributes)
        if name not in VOID:
            self.open.pop()

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"script", "style"}:
            self.texts.append(data)


@pytest.fixture(scope="module")
def page() -> str:
    return results_page(sample_results())


def text_of(results):
    return Reader(results_page(results)).text


def swatches(page, name):
    """Colours of a method's name."""
    return set(re.findall(rf'swatch (\w+)" aria-hidden="true"></span>the {name}<', page))


def test_page_says_what_was_found(page):
    text = Reader(page).text
    for expected in (
        "the own reaches 60.0 % success, the rival 60.0 % , and the start 20.0 % .",
        "Holds here: own beats its start (+40.0).", "Not settled here: own beats the rival (+0.0).",
        "what own does 4 000 60.0 % 35.2 to 84.8",  # 60 +- 4.303 * 10 / sqrt(3)
        "the own 1.20",  # useful questions in an episode
        "0.75 of 9 360 turns", "Hidden from the agent run(x, scale3)", "no score: not among the candidates",
        "Made on 2026-11-23 by sweet_rl 1.0 with: sweet-rl demo", "critic \u22120.41", "4 candidates, 2 different",
        "return \u22123.00", "turn 1 20.0 %", "On 2 cores, 4 min 10 s in all.", "A note.",
        "What failed, and is in no number own: 2 test episodes failed.", "seeds [0, 1, 2]",
    ):  # fmt: skip
        assert expected in text


def test_a_method_keeps_its_colour_everywhere_also_where_another_comparison_has_other_methods(
    page, no_charts
):
    assert 'class="dialogue edge c1"' in page
    results = sample_results()
    part = results.comparisons[0]
    methods = (method("further", (0.4, 0.5)), *reversed(part.methods))
    other = replace(part, name="other", title="Other", methods=methods)
    both = results_page(replace(results, comparisons=(part, other)))
    names = ("start", "own", "rival", "further")
    assert [swatches(page, name) for name in names] == [{"c0"}, {"c1"}, {"c2"}, set()]
    assert [swatches(both, name) for name in names] == [{"c0"}, {"c1"}, {"c2"}, {"c3"}]


def test_what_another_run_made_is_folded_but_for_its_first_curve(no_charts):
    results = sample_results()
    part = replace(results.comparisons[0], name="full", title="Full study: w", origin="Of another run.")
    page = results_page(replace(results, comparisons=(part, *results.comparisons)))
    folded = re.findall(r'<details class="fold"><summary><h2 id="full-(\w+)-heading"', page)
    assert folded == ["claims", "critics", "methods", "behaviour", "training"]
    assert 'id="full-claims"' in page
    assert 'id="full-compared"' not in page
    order = ["full-success", "idea", f"{results.comparisons[0].name}-claims", "full-claims"]
    assert sorted(order, key=lambda anchor: page.index(f'id="{anchor}"')) == order


def test_differences_at_an_axis_have_no_more_decimals_than_they_need():
    assert [words.signed(-0.0004, unit) for unit in ("share", "number", "count")] == ["+0.0", "+0.00", "+0"]
    assert [words.signed(-448.0, unit) for unit in ("number", "count")] == ["\u2212448.00", "\u2212448"]
    assert words.span(Estimate(2.0, -0.001, 1234.5), "count") == "0 to 1234"
    points, plain = words.signed_tick("share"), words.signed_tick("number")
    assert [points(x) for x in (-0.25, 0.0, 0.1, 0.125)] == ["\u221225", "0", "+10", "+12.5"]
    assert [plain(x) for x in (-1.5, 1e-12, 2.0)] == ["\u22121.5", "0", "+2"]


def test_floors_and_ceilings_are_lines_across_the_curves_and_take_no_colour():
    results = sample_results()
    part = results.comparisons[0]
    ceiling = replace(method("planner", (0.95, 0.97), curves=False), bound=True)
    drawn = replace(method("drawn", (0.3, 0.4)), bound=True)  # a bound with a curve of its own
    with_bounds = replace(part, methods=(*part.methods, ceiling, drawn))
    page = results_page(replace(results, comparisons=(with_bounds,)))
    chart = page.split('<svg class="chart"')[1]
    assert "the planner 96.0" in chart
    names = ("start", "own", "drawn")
    assert [chart.count(f"the {name} ") for name in names] == [1, 1, 1]  # curves, no lines
    assert "Lines across are floors and ceilings" in Reader(page).text
    assert (swatches(page, "planner"), swatches(page, "rival")) == ({"ink"}, {"c2"})
    best = re.findall(r'class="best"><span class="value">([\d.]+)', page)
    assert best == ["60.0", "60.0"]  # of the rivals: the planner is nobody's


def test_nothing_at_all_is_a_page():
    empty = Comparison("w", "w", own="a", methods=(Method("a", "a"),))
    for results in (Results("other", "A study"), Results("sweet", "A", comparisons=(empty,))):
        assert "Nothing has been measured yet." in text_of(results)


@pytest.mark.parametrize(("better", "best"), [("more", "the own"), ("fewer", "the start")])
def test_the_best_cell_is_that_of_the_best_method(better, best):
    """Of games needed that is the fewest, also if they are none; a floor is nobody's rival."""
    part = sample_results(own=(0.6, 0.7, 0.8), start=(0.0, 0.0, 0.0)).comparisons[0]
    measures = (replace(part.measures[0], better=better), *part.measures[1:])
    bounds = [replace(method("bound", (value,) * 3), bound=True) for value in (-1.0, 1.0)]
    colours = dict.fromkeys(["start", "own", "rival", "bound"], "")
    table = _table(replace(part, measures=measures), [*part.methods, *bounds], colours)
    assert [row["title"] for row in table["rows"] if any(cell["best"] for cell in row["cells"])] == [best]


@pytest.mark.parametrize(
    "text",
    [ATTACK, '"><script>x</script>', "</style>{{ 7*7 }}", "\x00\ud800\u202e", "&amp;", "$x_{", "\u6f22"],
)
def test_all_text_is_escaped(page, no_charts, text):
    """Every text that may come from a model or a file; names that link the parts stay."""
    kept = "study name own start better worse method group unit over format picture".split()

    def attacked(value, key=""):
        if is_dataclass(value):
            changed = {one.name: attacked(getattr(value, one.name), one.name) for one in fields(value)}
            return replace(value, **changed)
        if isinstance(value, dict):
            return {name: attacked(each, name) for name, each in value.items()}
        if isinstance(value, tuple):
            return tuple(attacked(each, key) for each in value)
        if not isinstance(value, str) or key in kept or (key == "better" and value in {"more", "fewer"}):
            return value
        return text

    results = attacked(sample_results())
    hostile = results_page(
        replace(results, settings={text: text}, seconds={text: 1.0}, provenance={text: text})
    )
    hostile.encode()
    plain, found = Reader(page), Reader(hostile)
    assert found.tags.count("script") == found.tags.count("style") == 1
    assert set(found.tags) <= set(plain.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "srcdoc"]
    assert [value for name, value in found.attributes if name == "src"] == [PICTURE, PICTURE]
    assert "\x00" not in hostile
    if "7*7" in text:
        assert "{{ 7*7 }}" in found.text


def test_a_picture_from_elsewhere_is_left_out(no_charts):
    results = sample_results()
    strip = results.strips[0]
    frame = replace(strip.frames[0], picture="https://example.org/x.png")
    page = results_page(replace(results, strips=(replace(strip, frames=(frame, strip.frames[1])),)))
    assert "example.org" not in page
    assert Reader(page).tags.count("img") == 1


def test_same_results_same_page(page):
    assert results_page(sample_results()) == page


def test_page_asks_nobody_for_anything(page):
    assert not re.findall(r"(?:https?:)?//[\w.-]+\.\w+", page)
    assert "@import" not in page
    assert not re.findall(r"url\((?!#)", page)
    assert not {"link", "iframe", "object", "embed"} & set(Reader(page).tags)
    targets = [value for key, value in Reader(page).attributes if key == "href"]
    assert {target.removeprefix("#") for target in targets} <= set(Reader(page).ids)


def test_policy_allows_the_page_s_own_script_and_style_only(page):
    contents = [value for name, value in Reader(page).attributes if name == "content"]
    policy = next(value for value in contents if "default-src" in value)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    for name in ("script", "style"):
        block = re.search(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"
    assert page.count("<style") == 1


# ---- charts


def test_charts_are_the_same_bytes_with_colours_of_the_page_and_no_date():
    def draw():
        return charts.intervals("all", [charts.Row("row", "c4", 0.5, 0.4, 0.6, [], "")], None, "share", str)

    assert draw() == draw()
    assert "var(--c4)" in draw()
    assert not re.findall(r"#[0-9a-f]{6}\b|\b20\d\d-|metadata", draw())


def test_marks_lie_where_their_numbers_are():
    """The middle of a dot at 0.25 is a quarter of the way between those at 0 and 1."""
    rows = [charts.Row("row", "c1", value, None, None, [], "") for value in (0.0, 0.25, 1.0)]
    drawn = str(charts.intervals("all", rows, None, "share", str)).split("narrow-only")[0]
    left, quarter, right = (
        float(x) for x in re.findall(r'<use xlink:href="#\w+" x="([\d.]+)"[^>]*var\(--surface\)', drawn)
    )
    assert (quarter - left) / (right - left) == pytest.approx(0.25, abs=1e-4)


def test_a_mean_curve_has_points_only_where_all_curves_were_measured():
    """Both were measured at 10 and 100: 1 and 3, 10 and 12; what lies between measurements is nobody's."""
    one = ((0.0, 0.0), (10.0, 1.0), (50.0, 7.0), (100.0, 10.0))
    steps, mean, error = charts.band([one, ((10.0, 3.0), (60.0, 9.0), (100.0, 12.0), (110.0, 13.0))])
    assert steps.tolist() == [10.0, 100.0]
    assert mean.tolist() == [2.0, 11.0]
    assert error == pytest.approx([1.0, 1.0])  # two values 2 apart: deviation sqrt(2), standard error 1
    assert not charts.band([((0.0, 1.0), (10.0, 3.0))])[2].any()
    assert charts.band([((0.0, 1.0),), ((5.0, 2.0),)])[1].tolist() == [1.0]  # they never meet


def test_durations_and_numbers_as_they_are_said():
    seconds = (8.44, 59.97, 250, 3599.6, 3725)
    said = [words.duration(one).replace("\u202f", " ") for one in seconds]
    assert said == ["8.4 s", "1 min 00 s", "4 min 10 s", "1 h 00 min", "1 h 02 min"]
    numbers = (0, 0.379, -1.5, 1234.5, 3e-7, None)
    assert [words.number(one) for one in numbers] == [
        *("0", "0.38", "\u22121.50", "1.23e+03", "3e\u221207", "\u2013")
    ]


def test_a_missing_package_is_named_before_anything_runs(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr("sweet_rl.studies.runner.importlib.import_module", absent)
    with pytest.raises(UsageError, match=r"pip install 'sweet_rl\[plots\]'"):
        prepared("unused", overwrite=False)


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
        browser.execute_script("document.querySelectorAll('.fold').forEach(e => e.open = true)")
        assert browser.execute_script(wide) == 0
        seen = (
            "return [...document.querySelectorAll('.wide-only, .narrow-only')].map(e => e.checkVisibility())"
        )
        assert set(browser.execute_script(seen)[:2]) == {True, False}
        assert browser.execute_script(seen)[0] == (width > 720)
        opened = "document.getElementById('open-all').click(); return document.querySelectorAll('details:not([open])').length"
        assert (
            browser.execute_script(f"document.querySelector('details:not(.fold)').open = false; {opened}")
            == 0
        )
        assert browser.get_log("browser") == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
