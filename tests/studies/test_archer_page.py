"""The report of an online study: what it says, what it survives, and what cannot get out of its data."""

import math
import re
from copy import deepcopy

import pytest

from sweet_rl.errors import DataError
from sweet_rl.studies.report.online import online_page
from sweet_rl.studies.report.online_charts import spread
from sweet_rl.studies.report.online_numbers import at, band, difference
from tests.studies.archer_samples import sample_online_study
from tests.studies.test_sweet_page import Reader, replaced
from tests.viewer.samples import ATTACK


@pytest.fixture(scope="module")
def page() -> str:
    return online_page(sample_online_study())


def three(name, ends, start=-12.0):
    seeds = [{"seed": seed, "start": start, "end": end} for seed, end in enumerate(ends)]
    return {"name": name, "seeds": seeds}


def said(*methods) -> str:
    return Reader(online_page({"methods": list(methods)})).text


def test_page_says_what_archer_gained(page):
    text = Reader(page).text
    # Gains 5.0, 4.1, 5.6: mean 4.90, standard deviation 0.7550, half the interval 4.303 * 0.7550 / sqrt(3).
    assert "ArCHer ends at a mean return of \u22127.10 , 4.90 above the policy it began with." in text
    assert "paired over 3 seeds, 95 % interval +3.02 to +6.78: it excludes 0." in text
    assert "Online CHAI (+1.93 over its start) is 2.97 behind" in text


def test_an_interval_with_zero_is_called_chance():
    text = said(three("ArCHer", [-11.0, -12.5, -10.0]))
    assert "0.83 above the policy" in text
    assert "it includes 0, so this may be chance." in text


def test_a_loss_is_called_a_loss():
    text = said(three("ArCHer", [-14.0, -14.1, -13.9]))
    assert "2.00 below the policy it began with." in text
    assert "it excludes 0. The policy got worse." in text


def test_a_method_that_is_ahead_is_called_so():
    text = said(three("ArCHer", [-9.0, -9.1, -8.9]), three("Online CHAI", [-5.0, -5.1, -4.9]))
    assert "Online CHAI (+7.00 over its start) is 4.00 ahead of it" in text
    assert "which excludes 0" in text


def test_one_seed_settles_nothing():
    text = said(three("ArCHer", [-9.0]), three("Online CHAI", [-5.0]))
    assert "One seed: how far another would lie from it is not known." in text
    assert "is 4.00 ahead of it; one seed does not settle it." in text


@pytest.mark.parametrize(
    "expected",
    [
        "92.7 % from 60.0 %",  # solved
        "\u22125.60 from \u221211.00",  # greedy
        "+3.02 to +6.78",
        "ArCHer \u2212 Online CHAI",
        "The hidden word is banana .",
        "6 min 14 s in all",
        "its candidates are all alike",
    ],
)
def test_page_holds_the_numbers(page, expected):
    assert expected in Reader(page).text


def test_a_method_has_one_colour_everywhere(page):
    assert set(re.findall(r'swatch (\w+)" aria-hidden="true"></span>ArCHer<', page)) == {"c1"}
    assert set(re.findall(r'swatch (\w+)" aria-hidden="true"></span>Online CHAI<', page)) == {"c2"}
    assert 'class="dialogue edge c0"' in page  # the start's games


def test_curves_are_drawn_where_their_numbers_are():
    """Steps 0 to 100 lie at 46 to 812 of the wide chart, -10 to 0 at its floor and its top."""
    study = {"methods": [{"name": "ArCHer", "seeds": [{"seed": 0, "curve": [[0, -10], [100, 0]]}]}]}
    line = re.search(r'class="line c1" d="M([^"]+)"', online_page(study))[1].split("L")
    assert (line[0], line[20], line[-1]) == ("46.0,376.0", "429.0,194.0", "812.0,12.0")


def test_marks_of_differences_lie_where_their_numbers_are(page):
    """The axis goes from -4 to 8: a gain of 4.90 lies at 74.17 % of it."""
    row = page.split('aria-label="ArCHer: +4.90')[1].split("</svg>")[0]
    assert 'class="dot c1" cx="74.17%"' in row
    assert 'class="reference" x1="33.33%"' in row  # zero


@pytest.mark.parametrize(
    "text", [ATTACK, '"><script>x</script>', "</style><!--sections-->", "\x00\ud800\u202e"]
)
def test_all_text_is_escaped(text):
    plain = Reader(online_page(replaced(sample_online_study(), lambda v: "x" if isinstance(v, str) else v)))
    study = replaced(sample_online_study(), lambda value: text if isinstance(value, str) else value)
    study["settings"] = {text: text}
    page = online_page(study)
    page.encode()
    attacked = Reader(page)
    assert attacked.tags.count("script") == plain.tags.count("script") == 1
    assert set(attacked.tags) <= set(plain.tags)
    assert not [n for n, _ in attacked.attributes if n.startswith("on") or n in {"style", "src", "srcdoc"}]


def test_nothing_at_all_is_a_page():
    text = Reader(online_page({})).text
    assert "An online study" in text
    assert "ArCHer has not been measured yet." in text


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_numbers_may_be_missing(missing):
    study = sample_online_study()
    for method in study["methods"]:
        for run in method["seeds"]:
            run |= {name: missing for name in run if name not in {"seed", "curve", "loss"}}
            run["curve"] = [[0, -12.0], [500, missing], [900, -8.0]]
            run["loss"] = [[1, missing]]
    text = Reader(online_page(study)).text
    assert "ArCHer has not been measured yet." in text
    for word in ("nan", "inf", "None"):
        assert not re.search(rf"\b{word}\b", text)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("methods",), {}, "field 'methods' must be a list"),
        (("methods", 1, "seeds", 0, "start"), "x", r"field 'methods\[1\].seeds\[0\].start' must be a number"),
        (("methods", 1, "seeds", 2, "curve", 3), [1], r"seeds\[2\].curve\[3\]' must be a pair"),
        (("methods", 1, "seeds", 2, "seed"), None, r"seeds\[2\].seed' is needed"),
        (("methods", 1, "seeds", 2, "seed"), 1, r"methods\[1\].seeds' must be different"),
        (("dialogues", 0, "turns", 1), ["only asked"], r"turns\[1\]' must be a question and its answer"),
        (("dialogues", 0, "turns", 1, 0), 5, r"turns\[1\].0' must be a string"),
    ],
)
def test_wrong_kinds_are_named(path, value, message):
    inner = study = deepcopy(sample_online_study())
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(DataError, match=message):
        online_page(study)


def test_page_asks_nobody_for_anything(page):
    assert not re.findall(r"(?:https?:)?//[\w.-]+\.\w+", page)
    assert "@import" not in page
    assert "url(" not in page
    targets = [value for key, value in Reader(page).attributes if key == "href"]
    assert {target.removeprefix("#") for target in targets} <= set(Reader(page).ids)


# ---- parts


def test_curves_of_different_steps_meet_on_a_common_grid():
    """Common are steps 10 to 100: there one curve goes from 1 to 10, the other from 3 to 12."""
    found = band([((0.0, 0.0), (100.0, 10.0)), ((10.0, 3.0), (110.0, 13.0))])
    assert found.mean[0] == (10.0, pytest.approx(2.0))
    assert found.mean[-1] == (100.0, pytest.approx(11.0))
    # Two values 2 apart: standard deviation sqrt(2), standard error 1.
    assert found.low[0] == (10.0, pytest.approx(1.0))
    assert found.high[-1] == (100.0, pytest.approx(12.0))


def test_one_curve_has_no_error_and_curves_that_never_meet_have_no_mean():
    alone = band([((0.0, 1.0), (10.0, 3.0))])
    assert alone.mean == alone.low == alone.high
    assert band([((0.0, 1.0),), ((5.0, 1.0),)]) is None
    assert band([(), ()]) is None


def test_between_points_a_curve_is_straight():
    curve = ((0.0, 1.0), (10.0, 3.0), (20.0, -1.0))
    assert [at(curve, x) for x in (-5, 5, 10, 15, 99)] == [1.0, 2.0, 3.0, 1.0, -1.0]


def test_difference_has_students_interval():
    found = difference([(0, 1.0), (1, 2.0), (2, 3.0)])
    assert found.mean == 2.0
    assert found.high - found.mean == pytest.approx(4.303 / math.sqrt(3))
    assert found.includes_zero  # 2 - 2.48
    assert difference([(0, 1.0)]).includes_zero is None
    assert difference([]) is None


def test_labels_that_would_touch_are_moved_apart_in_their_order():
    assert spread([50.0, 10.0, 52.0], 16, 0, 100) == [50.0, 10.0, 66.0]
    assert spread([95.0, 99.0], 16, 0, 100) == [84.0, 100.0]


# ---- in a browser


@pytest.mark.browser
@pytest.mark.parametrize("width", [1200, 400])
def test_page_fits_and_shows_the_chart_for_its_width(browser, page, tmp_path, width):
    out = tmp_path / "online.html"
    out.write_text(page, encoding="utf-8")
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.get_log("browser")
    try:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(out.as_uri())
        wide = "return [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
        assert browser.execute_script(wide) == 0
        seen = (
            "return [...document.querySelectorAll('.wide-only, .narrow-only')].map(e => e.checkVisibility())"
        )
        assert browser.execute_script(seen) == [width > 720, width <= 720]
        assert browser.get_log("browser") == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
