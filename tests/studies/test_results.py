"""Results of studies: differences by hand, the table, files read and joined; the page: what it says, its charts, what cannot get out."""

import base64
import hashlib
import itertools
import json
import math
import re
from dataclasses import asdict, fields, is_dataclass, replace

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.statistics import Estimate
from sweet_rl.studies import results as studied
from sweet_rl.studies.archer.results import with_claims as claims_of_archer
from sweet_rl.studies.reflect.results import with_claims as claims_of_reflect
from sweet_rl.studies.report import charts, words
from sweet_rl.studies.report.page import _table, results_page
from sweet_rl.studies.results import (
    Axes,
    Claim,
    Comparison,
    Counted,
    Dialogue,
    Measure,
    Method,
    Results,
    Run,
    Turn,
    beside,
    read_study,
)
from sweet_rl.studies.runner import prepared, table
from tests.conftest import ROOT
from tests.studies.samples import PICTURE, Reader, method, sample_results
from tests.viewer.samples import ATTACK


def runs(name, values):
    return Method(
        name, name, runs=tuple(Run(seed, {"success": Counted(value)}) for seed, value in values.items())
    )


def test_a_claim_is_paired_over_the_seeds_that_both_have_and_wider_among_several():
    ours, theirs = runs("a", {0: 0.9, 1: 0.5, 2: 0.6}), runs("b", {1: 0.1, 2: 0.4, 3: 0.9})
    alone, among = (studied.claim_over_seeds("a", ours, theirs, "success", among=count) for count in (1, 3))
    # differences 0.4 and 0.2: error 0.1; Student's t with one degree of freedom, outside 5 % and 5 % / 3
    assert alone.mean == among.mean == pytest.approx(0.3)
    assert [seed for seed, _ in alone.each] == [1, 2]
    assert alone.high - alone.mean == pytest.approx(12.706 * 0.1)
    assert among.high - among.mean == pytest.approx(38.188 * 0.1, rel=1e-4)
    assert (among.among, alone.verdict) == (3, "open")


def test_a_claim_over_tasks_is_paired_task_by_task():
    ours, theirs = {"t1": 1.0, "t2": 0.0, "t3": 1.0}, {"t1": 0.0, "t2": 0.0, "t4": 1.0}
    found = studied.claim_over_tasks("a beats b", ("a", ours), ("b", theirs))
    assert (found.mean, found.over, found.each) == (0.5, "tasks", ())
    assert studied.claim_over_tasks("a beats b", ("a", ours), ("b", {})).mean is None


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.1, 0.2, "holds"), (-0.2, -0.1, "reversed"), (-0.1, 0.1, "open"), (0.0, 0.1, "open"),
        (None, None, "unknown"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_claim_follows_from_its_interval(low, high, verdict):
    assert Claim("c", "a", "b", mean=0.1, low=low, high=high).verdict == verdict


def test_the_interval_of_a_method_is_over_its_seeds_or_that_of_its_only_run():
    alone = Method("a", "a", runs=(Run(0, {"success": Counted(0.5, 0.4, 0.6)}),))
    assert alone.estimate("success") == Counted(0.5, 0.4, 0.6)
    three = runs("a", {0: 0.1, 1: 0.2, 2: 0.3}).estimate("success")
    assert three.mean == pytest.approx(0.2)
    assert three.high == pytest.approx(0.2 + 4.303 * 0.1 / math.sqrt(3))
    assert alone.estimate("nothing") is alone.mean("nothing") is None
    wide = runs("a", {0: 0.1, 1: 0.9})
    found = [Measure("success", "", unit).of(wide) for unit in ("share", "number")]
    assert (found[0].low, found[0].high) == (0.0, 1.0)
    assert found[1].low < 0 < 1 < found[1].high


def test_the_table_in_full():
    one = Method("a", "A", runs=(Run(0, {"success": Counted(0.5, 0.25, 0.75), "auc": Counted(0.85)}),))
    other = Method("b", "method B", runs=(Run(0, {"success": Counted(0.25)}),))
    measures = (Measure("success", "success"), Measure("auc", "AUC", "number", "critic"))
    claims = (Claim("A beats B", "a", "b", "tasks", 0.25, 0.1, 0.4), Claim("A is good", "a", "b"))
    unmeasured = Method("c", "curves only", runs=(Run(0),))
    part = Comparison(
        "w", "world", own="a", measures=measures, methods=(one, other, unmeasured), claims=claims
    )
    assert table(Results("sweet", "t", comparisons=(part,))).splitlines() == [
        "world                    success        AUC",
        "A          50.0 % [25.0 to 75.0]       0.85",
        "method B                  25.0 %          \u2013",
        "  A beats B: +25.0 points, 95 % interval [+10.0, +40.0]: holds here",
        "  A is good: not measured",
    ]


PACKAGED = sample_results((0.9, 0.8, 0.7))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "full_study.json"
    path.write_text(json.dumps(asdict(PACKAGED)))
    return path


def test_its_numbers_are_those_of_its_file_and_stand_before_this_run(file, no_charts):
    results = beside(sample_results(), file)
    full, own = results.comparisons
    assert (full.name, full.title, full.origin) == ("full-world", "the world", studied.ORIGIN)
    assert (own.title, own.origin) == ("the world", "")
    (written,) = PACKAGED.comparisons
    assert (full.measures, full.curves, full.claims) == (written.measures, written.curves, written.claims)
    for one, other in zip(full.methods, written.methods, strict=True):
        known = [[(run.seed, run.measures, run.curves) for run in each.runs] for each in (one, other)]
        assert known[0] == known[1]
    assert results.full["seeds"] == [0, 1, 2]
    text = Reader(results_page(results)).text
    assert "the own reaches 60.0 % success" in text
    assert "Full study, 3 seeds: 80.0 % (55.2 to 100.0), the rival 60.0 %." in text
    assert studied.ORIGIN in text
    assert table(results).count("the world ") == 1


@pytest.mark.parametrize(
    ("own", "settings", "said"),
    [
        ((0.9, 0.8, 0.7), {"tasks": 9}, "This run confirms 1 of the 1 differences that it settled."),
        ((0.3, 0.2, 0.1), {"tasks": 9}, "This run confirms 0 of the 1 differences that it settled."),
        ((0.3,), {"tasks": 4}, "This run has other sizes: 1 seed instead of 3; tasks 4 instead of 9."),
    ],
)
def test_a_headline_says_where_it_differs_from_the_full_study_and_what_may_be_why(
    file, no_charts, own, settings, said
):
    """In the full study own beats its start by 60 points or nearly, and the rival comes too close."""
    full = sample_results((0.9, 0.8, 0.7), (0.3, 0.21, 0.1), (0.9, 0.7, 0.8))
    file.write_text(json.dumps(asdict(replace(full, settings={"tasks": 9, "rate": None}))))
    run = replace(sample_results(own, (0.3, 0.21, 0.1)), settings={"rate": 1, **settings})
    text = Reader(results_page(beside(run, file))).text
    assert said in text
    assert ("other sizes" in said) == ("other sizes" in text)


def test_what_the_full_study_says_of_the_same_world_comes_first_and_what_it_showed_itself_stays_out(
    file, tmp_path
):
    (part,) = PACKAGED.comparisons
    worlds = tuple(replace(part, name=name, title=name) for name in ("a", "b", "c"))
    file.write_text(json.dumps(asdict(replace(PACKAGED, comparisons=worlds))))
    run = replace(PACKAGED, comparisons=(worlds[1],))
    titles = [part.title for part in beside(run, file).comparisons]
    assert titles == ["b", "a", "c", "b"]

    file.write_text(json.dumps(asdict(beside(PACKAGED, file))))
    results = beside(sample_results(), file)
    assert [bool(part.origin) for part in results.comparisons] == [True, False]
    results = sample_results()
    assert beside(results, tmp_path / "none.json") is results


@pytest.mark.parametrize(
    ("content", "message"),
    [("{}", "must have the format"), ('{"format": "sweet_rl.study/1"}', "is no whole study")],
)
def test_another_file_is_refused(file, content, message):
    file.write_text(content)
    with pytest.raises(DataError, match=message):
        beside(sample_results(), file)


@pytest.mark.parametrize(
    ("file", "with_claims"),
    [
        ("sweet_rl/studies/archer/full_study.json", claims_of_archer),
        ("sweet_rl/studies/reflect/full_study.json", claims_of_reflect),
        ("benchmarks/results/archer_other_seeds.json", claims_of_archer),
        ("benchmarks/results/reflect_taxi_other_seeds.json", claims_of_reflect),
        ("benchmarks/results/reflect_once_more.json", claims_of_reflect),
    ],
)
def test_the_claims_of_a_study_are_those_of_its_runs(file, with_claims):
    _, comparisons = read_study(ROOT / file)
    assert with_claims(comparisons) == comparisons
    claims = [claim for part in comparisons for claim in part.claims]
    assert {claim.among for claim in claims} == {len(claims)}


@pytest.fixture(scope="module")
def page() -> str:
    return results_page(sample_results())


def swatches(page, name):
    """Colours of a method's name."""
    return set(re.findall(rf'swatch (\w+)" aria-hidden="true"></span>the {name}<', page))


def test_page_says_what_was_found(page):
    text = Reader(page).text
    for expected in (
        "the own reaches 60.0 % success (95 % interval 35.2 to 84.8) ; before training 20.0 % ; "
        "the best of the others, the rival, 60.0 % .",
        "what own does 4 000 60.0 % 35.2 to 84.8",  # 60 +- 4.303 * 10 / sqrt(3)
        "the own 1.20",  # useful questions in an episode
        "0.75 of 9 360 turns",
        "Hidden from the agent run(x, scale3)",
        "no score: not among the candidates",
        "Made on 2026-11-23 by sweet_rl 1.0 with: sweet-rl demo",
        "critic \u22120.41",
        "4 candidates",
        "return \u22123.00",
        "turn 1 20.0 %",
        "On 2 cores, 4 min 10 s in all.",
        "A note.",
        "What failed, and is in no number own: 2 test episodes failed.",
        "seeds [0, 1, 2]",
    ):
        assert expected in text


def test_what_only_one_of_two_dialogues_says_is_marked_and_credit_stands_turn_by_turn(no_charts):
    def dialogue(method, *turns):
        return Dialogue(
            method,
            method,
            1.0,
            "Guess.",
            "pear",
            tuple(Turn(said, "No.", "", score) for said, score in turns),
        )

    before = dialogue("start", ("Is it red?", None), ("Is it old?", None))
    after = dialogue("own", ("Is it old?", None), ("Is it a pear?", None))
    credit = tuple(
        dialogue(critic, ("Is it red?", first), ("Is it a pear?", 0.5))
        for critic, first in (("blind", 0.1), ("sweet", -0.25))
    )
    page = results_page(replace(sample_results(), dialogues=(before, after), credit=credit))
    assert re.findall("<mark>(.*?)</mark>", page) == ["Is it red?", "Is it a pear?"]
    text = Reader(page).text
    assert "outcome alone critic without the solution critic with the solution" in text
    assert "Is it red? +1.00 +0.10 \u22120.25" in text
    bars = re.findall(r'credit-bar (\w+)" aria-hidden="true"><rect x="([\d.]+)%" width="([\d.]+)%"', page)
    assert bars[:3] == [("good", "50.0", "50.0"), ("good", "50.0", "10.0"), ("bad", "25.0", "25.0")]
    without = results_page(replace(sample_results(), dialogues=(before, after)))
    assert "outcome alone" not in without
    assert without.count('class="idea"') == 2


def test_a_method_keeps_its_colour_in_every_comparison(page, no_charts):
    assert 'class="dialogue edge c1"' in page
    results = sample_results()
    part = results.comparisons[0]
    methods = (method("further", (0.4, 0.5)), *reversed(part.methods))
    other = replace(part, name="other", title="Other", methods=methods)
    both = results_page(replace(results, comparisons=(part, other)))
    for drawn, last in ((page, set()), (both, {"c3"})):
        found = [swatches(drawn, name) for name in ("start", "own", "rival", "further")]
        assert found == [{"c0"}, {"c1"}, {"c2"}, last]


def test_what_another_run_made_is_folded_but_for_its_first_curve(no_charts):
    results = sample_results()
    part = replace(results.comparisons[0], name="full", title="Full study: w", origin="Of another run.")
    page = results_page(replace(results, comparisons=(part, *results.comparisons)))
    folded = re.findall(r'<details class="fold"><summary><h3 id="full-(\w+)-heading"', page)
    assert folded == ["claims", "critics", "methods", "behaviour", "training"]
    assert 'id="full-claims"' in page
    assert 'id="full-compared"' not in page
    order = ["idea", "full-success", f"{results.comparisons[0].name}-claims", "full-claims"]
    assert sorted(order, key=lambda anchor: page.index(f'id="{anchor}"')) == order


def test_numbers_differences_and_durations_as_they_are_said():
    assert [words.signed(-0.0004, unit) for unit in ("share", "number", "count")] == ["+0.0", "+0.00", "+0"]
    assert [words.signed(-448.0, unit) for unit in ("number", "count")] == ["\u2212448.00", "\u2212448"]
    assert words.span(Estimate(2.0, -0.001, 1234.5), "count") == "0 to 1234"
    points, plain = words.signed_tick("share"), words.signed_tick("number")
    assert [points(x) for x in (-0.25, 0.0, 0.1, 0.125)] == ["\u221225", "0", "+10", "+12.5"]
    assert [plain(x) for x in (-1.5, 1e-12, 2.0)] == ["\u22121.5", "0", "+2"]
    seconds = (8.44, 59.97, 250, 3599.6, 3725)
    said = [words.duration(one).replace("\u202f", " ") for one in seconds]
    assert said == ["8.4 s", "1 min 00 s", "4 min 10 s", "1 h 00 min", "1 h 02 min"]
    numbers = (0, 0.379, -1.5, 1234.5, 3e-7, None)
    assert [words.number(one) for one in numbers] == [
        *("0", "0.38", "\u22121.50", "1.23e+03", "3e\u221207", "\u2013")
    ]


def test_floors_and_ceilings_are_lines_across_the_curves_and_take_no_colour():
    results = sample_results()
    part = results.comparisons[0]
    ceiling = replace(method("planner", (0.95, 0.97), curves=False), bound=True)
    drawn = replace(method("drawn", (0.3, 0.4)), bound=True)  # a bound with a curve of its own
    with_bounds = replace(part, methods=(*part.methods, ceiling, drawn))
    page = results_page(replace(results, comparisons=(with_bounds,)))
    chart = page.split('<svg class="chart"')[1]
    assert "the own 60.0\u202f%" in chart.split(">")[0]  # for who hears the page
    assert "the planner 96.0" in chart
    names = ("start", "own", "drawn")
    assert [chart.count(f">the {name} ") for name in names] == [1, 1, 1]  # curves, no lines
    assert "Lines across are floors and ceilings" in Reader(page).text
    assert (swatches(page, "planner"), swatches(page, "rival")) == ({"ink"}, {"c2"})
    best = re.findall(r'class="best"><span class="value">([\d.]+)', page)
    assert best == ["60.0", "60.0"]  # of the rivals: the planner is nobody's


def test_nothing_at_all_is_a_page():
    empty = Comparison("w", "w", own="a", methods=(Method("a", "a"),))
    for results in (Results("other", "A study"), Results("sweet", "A", comparisons=(empty,))):
        assert "Nothing has been measured yet." in Reader(results_page(results)).text


@pytest.mark.parametrize(("better", "best"), [("more", "the own"), ("fewer", "the start")])
def test_the_best_cell_is_that_of_the_best_method(better, best):
    """Of games needed that is the fewest, also if they are none; a floor is nobody's rival."""
    part = sample_results(own=(0.6, 0.7, 0.8), start=(0.0, 0.0, 0.0)).comparisons[0]
    measures = (replace(part.measures[0], better=better), *part.measures[1:])
    bounds = [replace(method("bound", (value,) * 3), bound=True) for value in (-1.0, 1.0)]
    colours = dict.fromkeys(["start", "own", "rival", "bound"], "")
    table = _table(replace(part, measures=measures, methods=(*part.methods, *bounds)), "result", colours)
    assert [row["title"] for row in table["rows"] if any(best for *_, best in row["cells"])] == [best]


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


def test_the_page_is_the_same_again_and_asks_nobody_for_anything(page):
    assert results_page(sample_results()) == page
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
        return charts.intervals(
            "all", [charts.Row("row", "c4", Estimate(0.5, 0.4, 0.6), [], "")], None, "share", str
        )

    assert draw() == draw()
    assert "var(--c4)" in draw()
    assert not re.findall(r"#[0-9a-f]{6}\b|\b20\d\d-|metadata", draw())


def test_marks_lie_where_their_numbers_are():
    """The middle of a dot at 0.25 is a quarter of the way between those at 0 and 1."""
    rows = [charts.Row("row", "c1", Estimate(value, None, None), [], "") for value in (0.0, 0.25, 1.0)]
    drawn = str(charts.intervals("all", rows, None, "share", str)).split("narrow-only")[0]
    left, quarter, right = (
        float(x) for x in re.findall(r'<use xlink:href="#\w+" x="([\d.]+)"[^>]*var\(--surface\)', drawn)
    )
    assert (quarter - left) / (right - left) == pytest.approx(0.25, abs=1e-4)


def names_at_ends(*values, levels=()):
    """Names beside the ends of lines, from above, with how far down each stands."""
    series = [charts.Series(f"line {value:g}", "c1", [((0.0, 1.0), (1.0, value))]) for value in values]
    drawn = str(charts.learning("all", series, levels, Axes("y", "y", "x"))).split("narrow-only")[0]
    found = re.findall(r' y="([\d.]+)" transform="[^"]*">([^<]*(?:line|level)[^<]*)<', drawn)
    return [(name, float(down)) for down, name in sorted(found, key=lambda each: float(each[0]))]


def test_names_stand_beside_the_ends_of_their_lines_and_none_covers_another():
    named = names_at_ends(5.0, 5.01, 5.02, 9.0, 0.0)
    assert [name for name, _ in named] == [
        f"line {value:g} {words.number(value)}" for value in (9, 5.02, 5.01, 5, 0)
    ]
    places = [down for _, down in named]
    assert min(after - before for before, after in itertools.pairwise(places)) > 9
    assert places[2] - places[1] == pytest.approx(places[3] - places[2])
    # the middle one of three stands at its line, half of the way from 9 to 1, or nearly
    assert (places[2] - places[0]) / (places[4] - places[0]) == pytest.approx(4 / 9, abs=0.02)


def test_a_floor_far_below_is_named_at_the_edge():
    named = dict(names_at_ends(-4.0, -5.0, levels=[("level a", -6.0), ("level b", -60.0)]))
    assert [*named] == [
        "line -4 \u22124.00",
        "line -5 \u22125.00",
        "level a \u22126.00",
        "\u2193 level b \u221260.00",
    ]
    assert named["level a \u22126.00"] > 100


def test_a_mean_curve_has_points_only_where_all_curves_were_measured():
    """Both were measured at 10 and 100: 1 and 3, 10 and 12; what lies between measurements is nobody's."""
    one = ((0.0, 0.0), (10.0, 1.0), (50.0, 7.0), (100.0, 10.0))
    steps, mean, error = charts.band([one, ((10.0, 3.0), (60.0, 9.0), (100.0, 12.0), (110.0, 13.0))])
    assert steps.tolist() == [10.0, 100.0]
    assert mean.tolist() == [2.0, 11.0]
    assert error == pytest.approx([1.0, 1.0])  # two values 2 apart: deviation sqrt(2), standard error 1
    assert not charts.band([((0.0, 1.0), (10.0, 3.0))])[2].any()
    assert charts.band([((0.0, 1.0),), ((5.0, 2.0),)])[1].tolist() == [1.0]  # they never meet


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
