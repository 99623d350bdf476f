"""The page in a real Chromium, exported and served: what one sees, and that hostile text stays text."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sweet_rl.records import trajectories_from_rows
from sweet_rl.viewer.export import export_html
from tests.viewer.samples import ATTACK, many_rows

selenium = pytest.importorskip("selenium")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]


class Viewer:
    """The page as its user knows it."""

    def __init__(self, driver, address):
        self.driver, self.address = driver, address

    def open(self, fragment=""):
        self.driver.get("about:blank")  # a mere change of the fragment would not load the page again
        self.driver.get(self.address + fragment)
        self.until(lambda: self.all(".detail-head, .nothing"))
        return self

    def until(self, condition):
        return WebDriverWait(self.driver, 5, poll_frequency=0.02).until(lambda _: condition())

    def script(self, body, *arguments):
        return self.driver.execute_script(body, *arguments)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        (element,) = self.all(selector)
        return element

    def texts(self, selector):
        """Texts as they stand in the document, shown or not."""
        return self.script(
            "return Array.from(document.querySelectorAll(arguments[0]), e => e.textContent)", selector
        )

    def text(self, selector):
        (text,) = self.texts(selector)
        return text

    def press(self, *keys):
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def search(self, text):
        box = self.one("#search")
        box.clear()
        box.send_keys(text)

    def wait_for(self, fragment):
        """Until the row that the address names is shown."""
        self.until(lambda: self.driver.current_url.endswith(fragment))
        task, repeat = fragment[1:].rsplit("/", 1)
        self.until(lambda: f"Repeat {repeat}" in self.text(".stepper") and task in self.text(".facts"))

    @property
    def count(self):
        return self.text("#count")


@pytest.fixture
def viewer(browser, exported):
    return Viewer(browser, exported)


@pytest.fixture(scope="module")
def server(sample_file):
    """The real command in a process of its own; yields the address that it prints."""
    script = ROOT / "visualizers" / "visualize_dialogue_histories.py"
    process = subprocess.Popen(
        [sys.executable, script, sample_file, "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    line = process.stdout.readline()
    yield re.search(r"http://127\.0\.0\.1:\d+/", line).group()
    process.send_signal(2)  # Ctrl-C is how one ends it
    assert process.wait(5) == 0
    process.stdout.close()


@pytest.fixture(params=["exported", "served"])
def either(request, browser, exported):
    return Viewer(browser, exported if request.param == "exported" else request.getfixturevalue("server"))


def test_list_summary_and_first_row(either):
    either.open()
    assert either.count == "9 rows of 9"
    assert either.texts("#figures dd") == ["94 tasks", "33.3 %published 33.3 %", "43.3 %published 41.7 %"]
    assert either.texts("#stops button") == [
        "4 Answered",
        "2 Not recorded",
        "1 Turn limit",
        "1 Policy failed",
        "1 World failed",
    ]
    assert len(either.all(".entry")) == 4
    assert [chip.get_attribute("class") for chip in either.all(".entry:first-child .chip")] == [
        "chip solved",
        "chip partial",
        "chip zero",
    ]
    assert either.text(".detail-head h2").startswith("I need a function that works out the shipping fee")
    assert "llama-3.1-8b-instruct" in either.text(".facts")
    assert either.driver.current_url.endswith("#mini-test-0007/0")


def test_dialogue_is_a_chat_with_thoughts_and_prompts_on_demand(either):
    either.open("#mini-test-0007/0")
    assert [turn.get_attribute("class") for turn in either.all(".turn")] == [
        "turn user",
        "turn assistant",
    ] * 3
    thought, *prompts = either.one(".folded.thoughts"), *either.all(".folded.prompts")
    assert len(prompts) == 3
    assert not thought.is_displayed()
    assert not any(prompt.is_displayed() for prompt in prompts)
    either.press("t")
    assert (
        thought.text == "The member discount is still open. One question should settle it, then I can answer."
    )
    either.press("p")
    assert all(prompt.is_displayed() for prompt in prompts)
    assert prompts[2].text.count("<|assistant|>") == 3  # put together from what each prompt adds
    either.press("]")
    either.wait_for("#mini-test-0007/1")
    assert either.all(".folded.prompts")[0].is_displayed()  # stays so from row to row
    assert "def shipping_fee" in either.text(".turn:last-of-type .code")


def test_failures_are_flagged_at_their_turn(viewer):
    viewer.open("#mini-test-0012/0")
    entries = viewer.texts(".chat > li")
    assert (
        entries[2]
        == "Rate limited (HTTP 429) after 4 attempts: the server asked to wait longer than --max_wait_s"
    )
    assert entries[3] == "HumanNo response."
    assert entries[-1] == "Turn limit after 3 agent turns"
    viewer.press("]")
    viewer.wait_for("#mini-test-0012/1")
    assert viewer.texts(".chat > li")[-2:] == [
        "Policy failed after 1 agent turn",
        "Bad request (HTTP 400): the prompt has 8,214 tokens, the model takes 8,192",
    ]


def test_published_rows_are_shown_as_far_as_they_go(viewer):
    viewer.open()
    viewer.press("5")
    assert viewer.count == "3 rows of 9"
    viewer.one("button[aria-label^='Repeat 0: reward –, not recorded, 1 turn']").click()
    viewer.until(lambda: "moving average" in viewer.text(".detail-head h2"))
    assert viewer.texts(".chat > li")[-1] == "Ended after 1 agent turn"
    assert viewer.text("#answer .flag") == "No answer was handed in."
    assert "def moving_average" in viewer.text("#answer .code")
    assert viewer.texts("#tests th") == ["Test"]
    viewer.press("]")
    viewer.until(lambda: "Repeat 1" in viewer.text(".stepper"))
    assert viewer.texts(".flag") == ["The simulated human could not be asked; the file does not say why."]


def test_answer_stands_beside_the_hidden_function(viewer):
    viewer.open("#mini-test-0007/1")
    assert viewer.texts("#answer th") == ["Answer", "Hidden function"]
    sides = [
        [cell.get_property("textContent") for cell in row.find_elements(By.CSS_SELECTOR, ".source")]
        for row in viewer.all(".diff tr.changed")
    ]
    assert sides == [
        [
            "only in the answer:     # a flat fee, dearer above the limit",
            'only in the hidden function:     """Fee in cents."""',
        ],
        [
            "only in the answer:         base += 35",
            "only in the hidden function:         base += 35 * (weight_kg - 12)",
        ],
        ["only in the answer:     return base", "only in the hidden function:     return max(base, 199)"],
    ]
    assert len(viewer.all(".diff tr.same")) == 5
    marked = viewer.script("return [...document.querySelectorAll('.diff tr')].slice(-1)[0].innerText")
    assert "max(base, 199)" in marked
    assert "".join(viewer.texts(".diff tr:last-child mark")) == "max(, 199)"
    assert viewer.texts("#answer .notes span") == ["−3", "+3", "shown without its fence"]
    viewer.open("#mini-test-0012/2")
    assert viewer.texts("#answer .notes span") == ["the same code"]
    assert viewer.all(".diff tr.changed") == []


def test_diff_of_awkward_texts(viewer):
    """Left and right lines that are alike, per pair of texts; and that a huge pair is not worth a minute."""
    viewer.open()

    def rows(left, right):
        script = "return Diff.lines(arguments[0], arguments[1]).map(row => [row.left, row.right, row.same])"
        return viewer.script(script, left, right)

    assert rows([], []) == []
    assert rows([], ["a"]) == [[None, 0, False]]
    assert rows(["a"], []) == [[0, None, False]]
    assert rows(["a ", "b"], ["a", "b\t"]) == [[0, 0, True], [1, 1, True]]
    assert rows(["x", "a", "b"], ["a", "y", "b"]) == [
        [0, None, False],
        [1, 0, True],
        [None, 1, False],
        [2, 2, True],
    ]
    assert rows(["a"] * 3, ["a"] * 2) == [[0, 0, True], [1, 1, True], [2, None, False]]
    huge = rows([f"a{i}" for i in range(3000)], [f"b{i}" for i in range(3000)])
    assert len(huge) == 6000
    assert not any(same for _, _, same in huge)


def test_test_by_test_results(viewer):
    viewer.open("#mini-test-0007/1")
    assert viewer.text("#tests .notes") == "6 of 10 passed"
    assert viewer.texts("#tests .outcome") == ["✓ Passed"] * 6 + ["✗ Failed"] * 4
    assert [cell.get_property("textContent") for cell in viewer.all("#tests tbody tr:last-child td")] == [
        "✗ Failed",
        "test10shipping_fee(100, True)",
        "765",
        "485",
    ]
    viewer.open("#mini-test-0007/2")
    assert set(viewer.texts("#tests .outcome")) == {"✗ Timeout"}
    assert viewer.texts("#tests tbody tr:first-child td")[3] == "took longer than 1 s"


def test_filters_by_reward_and_stop_reason(either):
    either.open()
    for key, rows in {"2": 2, "3": 1, "4": 3, "5": 3, "1": 9}.items():
        either.press(key)
        assert either.count.startswith(f"{rows} row"), key
    either.press("4")
    stop = Select(either.one("#stop"))
    assert [option.text for option in stop.options] == [
        "Any stop reason (3)", "Not recorded (0)", "Answered (1)", "Policy failed (0)", "Turn limit (1)", "World failed (1)",
    ]  # fmt: skip
    stop.select_by_value("turn_limit")
    assert either.count == "1 row of 9"
    assert either.texts(".segment-count") == ["1", "0", "0", "1", "0"]
    assert [chip.get_attribute("class") for chip in either.all(".chip")] == [
        "chip zero",
        "chip ungraded faint",
        "chip solved faint",
    ]
    either.one("#stops button").click()
    assert either.count == "3 rows of 9"
    Select(either.one("#stop")).select_by_value("policy_failed")
    assert either.text("#list .nothing") == "Nothing matches these filters."


def test_search_in_dialogues_thoughts_and_answers(either):
    either.open()
    for text, rows in {
        "THREE quarters": 1,
        "discount is still open": 1,
        "while true": 1,
        "moving average": 2,
        "zebra": 0,
    }.items():
        either.search(text)
        either.until(lambda rows=rows: either.count.startswith(f"{rows} row"))
    either.search("discount is still open")
    either.until(lambda: either.count == "1 row of 9")
    either.until(lambda: either.one(".folded.thoughts").is_displayed())  # what was found is not hidden
    found = "const [found] = CSS.highlights.get('found'); return found.toString()"
    assert either.script(found) == "discount is still open"
    either.press(Keys.ESCAPE)
    either.until(lambda: either.count == "9 rows of 9")


def test_keys_go_from_row_to_row_and_repeat_to_repeat(either):
    either.open()
    for key, fragment in [
        ("j", "#mini-test-0007/1"),
        (Keys.ARROW_DOWN, "#mini-test-0007/2"),
        ("j", "#mini-test-0012/0"),
        ("]", "#mini-test-0012/1"),
        ("]", "#mini-test-0012/2"),
        ("]", "#mini-test-0012/2"),
        ("[", "#mini-test-0012/1"),
        ("k", "#mini-test-0012/0"),
        (Keys.ARROW_UP, "#mini-test-0007/2"),
    ]:
        either.press(key)
        either.wait_for(fragment)
    assert either.text(".entry [aria-current=true]") == "2"
    either.press("g")  # ungrouped: file order
    either.press("j")
    either.wait_for("#mini-test-0012/2")
    either.press("3")  # only row 2 is partial: before the selected one
    either.press("j")
    either.press("k")
    either.wait_for("#mini-test-0007/1")


def test_keys_for_search_help_and_places(viewer):
    viewer.open("#mini-test-0007/1")
    viewer.press("/")
    assert viewer.driver.switch_to.active_element.get_attribute("id") == "search"
    viewer.press("jk2?")  # in the box, letters are letters
    viewer.until(lambda: viewer.count == "0 rows of 9")
    viewer.press(Keys.ESCAPE)
    viewer.until(lambda: viewer.count == "9 rows of 9")
    viewer.press(Keys.ESCAPE)
    assert viewer.driver.switch_to.active_element.get_attribute("aria-current") == "true"
    viewer.press("?")
    assert viewer.one("#help").is_displayed()
    viewer.press("j")  # keys wait while the help is open
    viewer.press(Keys.ESCAPE)
    viewer.until(lambda: not viewer.one("#help").is_displayed())
    assert viewer.driver.current_url.endswith("#mini-test-0007/1")
    viewer.press("e")
    below = "const box = id => document.querySelector(id).getBoundingClientRect(); return box('#tests').top - box('.detail-head').bottom"
    viewer.until(lambda: abs(viewer.script(below)) < 300)
    assert viewer.script("return document.getElementById('detail').scrollTop") > 0


def test_address_keeps_the_row(viewer):
    viewer.open("#mini-test-0012/2")
    assert "Repeat 2" in viewer.text(".stepper")
    viewer.script("location.hash = '#mini-test-0007/1'")
    viewer.wait_for("#mini-test-0007/1")
    for nonsense in ("#no-such-task/0", "#mini-test-0007/99", "#%E0%A4%A", "#/", "#constructor/0"):
        viewer.open(nonsense)
        viewer.wait_for("#mini-test-0007/0")


def test_hostile_text_is_text_and_runs_nowhere(either):
    either.driver.get_log("browser")
    either.open()
    either.all(".entry-main")[-1].click()
    either.until(lambda: either.text(".detail-head h2").startswith("Say </script>"))
    either.press("tp")
    either.search("</script><script>")
    either.until(lambda: either.count == "1 row of 9")
    assert either.texts(".bubble")[0] == f"Say {ATTACK}"
    assert ATTACK in either.text(".facts")
    assert either.script("return window.pwned") is None
    assert either.all("#detail script, #detail img, #detail svg, #detail a, #detail b, #list img") == []
    assert [entry["message"] for entry in either.driver.get_log("browser")] == []
    either.driver.refresh()  # the row's own hash holds the attack, too
    either.until(
        lambda: either.all(".detail-head h2") and either.text(".detail-head h2").startswith("Say </script>")
    )


def test_even_our_own_mistakes_could_not_run_it(viewer):
    viewer.open()
    refused = """
        const outcome = [];
        for (const attempt of [() => document.body.innerHTML = "<img src=x onerror=1>", () => eval("1"), () => setTimeout("1")]) {
            try { attempt(); outcome.push("done"); } catch (error) { outcome.push(error.name); }
        }
        return outcome"""
    assert set(viewer.script(refused)) <= {"TypeError", "EvalError"}
    viewer.driver.get_log("browser")


def test_exported_page_asks_the_network_for_nothing(viewer):
    viewer.driver.get_log("performance")
    viewer.open()
    for key in "jjj]":
        viewer.press(key)
    viewer.wait_for("#mini-test-0012/1")
    events = [json.loads(entry["message"])["message"] for entry in viewer.driver.get_log("performance")]
    asked = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert asked, "the log must at least hold the page itself"
    assert {address.split(":", 1)[0] for address in asked} <= {"file", "data", "about"}
    outcome = viewer.driver.execute_async_script(
        "fetch('http://127.0.0.1:9/').catch(error => arguments[0](error.name))"
    )
    assert outcome == "TypeError"  # the policy forbids it
    assert "Content Security Policy" in viewer.driver.get_log("browser")[-1]["message"]


def test_served_rows_are_fetched_when_looked_at(browser, server):
    viewer = Viewer(browser, server)
    browser.get_log("performance")
    viewer.open()
    viewer.press("j")
    viewer.wait_for("#mini-test-0007/1")
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    paths = [address.removeprefix(server) for address in asked if address.startswith("http")]
    assert paths == ["", "api/index", "api/rows/0", "api/rows/2"]


def test_narrow_window_shows_list_or_trajectory(viewer):
    metrics = {"width": 480, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    viewer.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        viewer.open()
        assert viewer.one("#list").is_displayed()
        assert not viewer.one("#detail").is_displayed()
        viewer.all(".chip")[1].click()
        viewer.wait_for("#mini-test-0007/1")
        assert viewer.one("#detail").is_displayed()
        assert not viewer.one("#list").is_displayed()
        wider = "const [e] = document.querySelectorAll('#detail'); return e.scrollWidth - e.clientWidth"
        assert viewer.script(wider) == 0
        viewer.one(".back").click()
        assert viewer.one("#list").is_displayed()
    finally:
        viewer.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_controls_have_names_and_focus_survives_scrolling(viewer):
    viewer.open()
    nameless = [
        b.get_attribute("outerHTML")
        for b in viewer.all("button, input, select")
        if b.is_displayed() and not b.accessible_name
    ]
    assert nameless == []
    viewer.all(".chip")[0].click()
    viewer.press("j")
    assert viewer.driver.switch_to.active_element.get_attribute("aria-label").startswith(
        "Repeat 1: reward 0.60"
    )


def test_thousands_of_rows_stay_usable(browser, tmp_path):
    rows = trajectories_from_rows(list(enumerate(many_rows(5000), start=1)))
    export_html(rows, tmp_path / "many.html", "many")
    viewer = Viewer(browser, (tmp_path / "many.html").as_uri()).open()
    assert viewer.count == "5,000 rows of 5,000"
    assert len(viewer.all(".entry")) < 40
    browser.execute_script("const list = document.getElementById('list'); list.scrollTop = list.scrollHeight")
    viewer.until(lambda: viewer.all(".entry")[-1].get_attribute("aria-posinset") == "1250")
    assert "Task 1249." in viewer.texts(".entry-title")[-1]
    assert len(viewer.all(".entry")) < 40
    viewer.search("above 4321 kilograms")
    viewer.until(lambda: viewer.count == "1 row of 5,000")
    viewer.press(Keys.ENTER)
    viewer.wait_for("#mini-00571/3")


def test_empty_file(browser, tmp_path):
    export_html([], tmp_path / "empty.html", "empty")
    viewer = Viewer(browser, (tmp_path / "empty.html").as_uri()).open()
    assert "This file holds no trajectories." in viewer.texts(".nothing")
    for key in "jk][g2/":
        viewer.press(key)
    assert viewer.count == "0 rows of 0"
