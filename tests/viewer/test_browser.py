"""The page in a real Chromium, exported and served: what one sees, and that hostile text stays text."""

import re
import signal
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.viewer.driving import Viewer, page_of
from tests.viewer.samples import ATTACK, many_rows

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture
def viewer(browser, exported):
    return Viewer(browser, exported)


@pytest.fixture(scope="module")
def server(sample_file, browser):
    """The real command in a process of its own; yields its address, to which the browser has the token."""
    script = ROOT / "visualizers" / "visualize_dialogue_histories.py"
    command = [sys.executable, script, sample_file, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        printed = re.search(r"(http://127\.0\.0\.1:\d+/)\?token=\S+", process.stdout.readline())
        browser.get(printed.group())
        yield printed.group(1)
        browser.get("about:blank")  # the page would go on asking, and other tests read the browser's log
        process.send_signal(signal.SIGINT)  # Ctrl-C is how one ends it
        assert process.wait(5) == 0


@pytest.fixture(params=["exported", "served"])
def either(request, browser, exported):
    return Viewer(browser, exported if request.param == "exported" else request.getfixturevalue("server"))


def test_list_summary_and_first_row(viewer):
    either = viewer.open()
    assert either.count == "9 rows of 9"
    # 1/3 and 1/2 of two tasks' rows; what failed is in no mean
    success = "41.7 %[6.8, 87.5] · published 41.7 %"
    assert either.texts("#figures dd") == ["94 tasks", success, "51.7 %published 50.0 %", "2"]
    assert either.texts("#figures dt") == ["Rows", "Success", "Tests passed", "Failed"]
    stops = ["4 Answered", "2 Not recorded", "1 Turn limit", "1 Policy failed", "1 World failed"]
    assert either.texts("#stops button") == stops
    assert len(either.all(".entry")) == 4
    assert either.classes(".entry:first-child .chip") == ["chip solved", "chip partial", "chip zero"]
    assert either.text(".detail-head h2").startswith("I need a function that works out the shipping fee")
    assert "llama-3.1-8b-instruct" in either.text(".facts")
    either.wait_for("#mini-test-0007/0")


def test_dialogue_is_a_chat_with_thoughts_and_prompts_on_demand(viewer):
    viewer.open("#mini-test-0007/0")
    assert viewer.classes(".turn") == ["turn user", "turn assistant"] * 3
    assert viewer.shown(".folded.thoughts") == [False]
    assert viewer.shown(".folded.prompts") == [False] * 3
    viewer.press("t")
    assert viewer.shown(".folded.thoughts") == [True]
    thought = "The member discount is still open. One question should settle it, then I can answer."
    assert viewer.text(".folded.thoughts") == thought
    viewer.press("p")
    assert viewer.shown(".folded.prompts") == [True] * 3
    # put together from what each prompt adds to the one before
    assert [prompt.count("<|assistant|>") for prompt in viewer.texts(".folded.prompts")] == [1, 2, 3]
    viewer.press("]")
    viewer.wait_for("#mini-test-0007/1")
    assert viewer.shown(".folded.prompts") == [True] * 2  # stays so from row to row
    viewer.click(".fold")
    assert viewer.shown(".folded.prompts") == [True] * 2, "the first .fold is a jump to the dialogue"
    viewer.click(".speaker .fold")
    assert viewer.shown(".folded.prompts") == [False, True]
    assert "def shipping_fee" in viewer.text(".bubble .code")


def test_failures_are_flagged_at_their_turn(viewer):
    viewer.open("#mini-test-0012/0")
    entries = viewer.texts(".chat > li")
    flag = "Rate limited (HTTP 429) after 4 attempts: the server asked to wait longer than --max_wait_s"
    assert entries[2:4] == [flag, "HumanNo response."]
    assert entries[-1] == "Turn limit after 3 agent turns"
    viewer.go("#mini-test-0012/1")
    refused = "Bad request (HTTP 400): the prompt has 8,214 tokens, the model takes 8,192"
    assert viewer.texts(".chat > li")[-2:] == ["Policy failed after 1 agent turn", refused]


def test_published_rows_are_shown_as_far_as_they_go(viewer):
    viewer.open()
    viewer.press("5")
    assert viewer.count == "3 rows of 9"
    viewer.click("button[aria-label='Repeat 0: ungraded, not recorded, 1 turn']")
    viewer.until("return document.querySelector('.detail-head h2').textContent.includes('moving average')")
    assert viewer.texts(".chat > li")[-1] == "Ended after 1 agent turn"
    assert viewer.text("#answer .flag") == "No answer was handed in."
    assert "def moving_average" in viewer.text("#answer .code")
    assert viewer.texts("#tests th") == ["Test"]
    viewer.press("]")
    viewer.until("return document.querySelector('.stepper').textContent.includes('Repeat 1')")
    assert viewer.texts(".flag") == ["The simulated human could not be asked; the file does not say why."]


def test_answer_stands_beside_the_hidden_function(viewer):
    viewer.open("#mini-test-0007/1")
    assert viewer.texts("#answer th") == ["Answer", "Hidden function"]
    left, right = "only in the answer: ", "only in the hidden function: "
    assert viewer.texts(".diff .changed .source") == [
        f"{left}    # a flat fee, dearer above the limit",
        f'{right}    """Fee in cents."""',
        f"{left}        base += 35",
        f"{right}        base += 35 * (weight_kg - 12)",
        f"{left}    return base",
        f"{right}    return max(base, 199)",
    ]
    assert "".join(viewer.texts(".diff mark")) == " * (weight_kg - 12)" + "max(" + ", 199)"
    assert len(viewer.all(".diff .same")) == 5
    assert viewer.texts("#answer .notes span") == ["\u22123", "+3", "shown without its fence"]
    viewer.go("#mini-test-0012/2")
    assert viewer.texts("#answer .notes span") == ["the same code"]
    assert viewer.all(".diff .changed") == []


DIFFS = [
    ([], [], []),
    ([], ["a"], [[None, 0, False]]),
    (["a"], [], [[0, None, False]]),
    (["a ", "b"], ["a", "b\t"], [[0, 0, True], [1, 1, True]]),
    (["x", "a", "b"], ["a", "y", "b"], [[0, None, False], [1, 0, True], [None, 1, False], [2, 2, True]]),
    (["a"] * 3, ["a"] * 2, [[0, 0, True], [1, 1, True], [2, None, False]]),
]


def test_diff_of_awkward_texts(viewer):
    viewer.open()
    script = "return Diff.lines(arguments[0], arguments[1]).map(row => [row.left, row.right, row.same])"
    assert [viewer.script(script, left, right) for left, right, _ in DIFFS] == [rows for *_, rows in DIFFS]
    # a pair that would need too large a table is shown as wholly changed between its equal ends
    left, right = (["a", *(f"{side}{i}" for i in range(3000)), "z"] for side in "ab")
    assert [row[2] for row in viewer.script(script, left, right)] == [True] + [False] * 3000 + [True]


def test_test_by_test_results(viewer):
    viewer.open("#mini-test-0007/1")
    assert viewer.text("#tests .notes") == "6 of 10 passed"
    assert viewer.texts("#tests .outcome") == ["✓ Passed"] * 6 + ["✗ Failed"] * 4
    last = ["✗ Failed", "test10shipping_fee(100, True)", "765", "485"]
    assert viewer.texts("#tests tr:last-child td") == last
    viewer.go("#mini-test-0007/2")
    assert set(viewer.texts("#tests .outcome")) == {"✗ Timeout"}
    assert viewer.texts("#tests td")[3] == "took longer than 1 s"
    assert viewer.texts("#tests .flag") == ["Published grading: would have hung"]


def test_filters_by_reward_and_stop_reason(viewer):
    viewer.open()
    for key, count in {"2": "2 rows", "3": "1 row", "4": "3 rows", "5": "3 rows", "1": "9 rows"}.items():
        viewer.press(key)
        assert viewer.count == f"{count} of 9"
    viewer.press("4")
    options = ["Any stop reason (3)", "Not recorded (0)", "Answered (1)", "Policy failed (0)"]
    assert viewer.texts("#stop option") == [*options, "Turn limit (1)", "World failed (1)"]
    viewer.choose("#stop", "turn_limit")
    assert viewer.count == "1 row of 9"
    assert viewer.texts(".segment-count") == ["1", "0", "0", "1", "0"]
    assert viewer.classes(".chip") == ["chip zero", "chip ungraded faint", "chip solved faint"]
    viewer.click("#stops button")
    assert viewer.count == "3 rows of 9"
    viewer.choose("#stop", "policy_failed")
    assert viewer.text("#list .nothing") == "Nothing matches these filters."


def test_search_in_dialogues_thoughts_and_answers(either):
    either.open()
    counts = {"THREE quarters": "1 row", "while true": "1 row", "moving average": "2 rows", "zebra": "0 rows"}
    for text, count in counts.items():
        either.search(text)
        either.wait_for_count(f"{count} of 9")
    either.search("discount is still open")
    either.wait_for_count("1 row of 9")
    either.until("return CSS.highlights.get('found').size")
    found = "const [found] = CSS.highlights.get('found'); return found.toString()"
    assert either.script(found) == "discount is still open"
    assert either.shown(".folded.thoughts") == [True]  # what was found is not hidden
    either.press("Escape")
    either.wait_for_count("9 rows of 9")


def test_keys_go_from_row_to_row_and_repeat_to_repeat(viewer):
    viewer.open()
    there = [("j", "07/1"), ("ArrowDown", "07/2"), ("j", "12/0"), ("]", "12/1"), ("]", "12/2"), ("]", "12/2")]
    for key, row in [*there, ("[", "12/1"), ("k", "12/0"), ("ArrowUp", "07/2")]:
        viewer.press(key)
        viewer.wait_for(f"#mini-test-00{row}")
    assert viewer.texts(".entry [aria-current=true]") == ["2"]
    viewer.press("g", "j")  # ungrouped: the next one in the file
    viewer.wait_for("#mini-test-0012/2")
    viewer.press("3", "j", "k")  # the only partial row stands before the selected one
    viewer.wait_for("#mini-test-0007/1")
    viewer.press("/")
    assert viewer.script("return document.activeElement.id") == "search"
    viewer.press(*"jk2?")  # in the box, letters are letters
    viewer.wait_for_count("0 rows of 9")
    viewer.press("Escape", "Escape")
    viewer.press("?")
    assert viewer.shown("#help") == [True]
    viewer.press("j")  # keys wait while the help is open
    viewer.click("#help .primary")
    viewer.wait_for("#mini-test-0007/1")
    viewer.script("document.getElementById('detail').focus()")
    viewer.press("ArrowDown")  # there, arrows scroll
    viewer.wait_for("#mini-test-0007/1")
    viewer.press("a")
    viewer.until("""
        const box = (selector) => document.querySelector(selector).getBoundingClientRect();
        return Math.abs(box("#answer").top - box(".detail-head").bottom) < 2""")


def test_address_keeps_the_row(viewer):
    viewer.open("#mini-test-0012/2")
    viewer.wait_for("#mini-test-0012/2")
    for nonsense in ("#no-such-task/0", "#mini-test-0007/99", "#%E0%A4%A/0", "#", "#constructor/0"):
        viewer.script("location.hash = arguments[0]", nonsense)
    assert "Repeat 2" in viewer.text(".stepper")
    viewer.open("#no-such-task/0")
    viewer.wait_for("#mini-test-0007/0")
    assert viewer.complaints() == []


def test_hostile_text_is_text_and_runs_nowhere(either):
    either.complaints()
    either.open()
    either.click(".entry:last-child .entry-main")
    is_shown = "return document.querySelector('.detail-head h2')?.textContent.startsWith('Say </script>')"
    either.until(is_shown)
    either.press("t", "p")
    either.search("</script><script>")
    either.wait_for_count("1 row of 9")
    assert either.texts(".bubble")[0] == f"Say {ATTACK}"
    assert ATTACK in either.text(".facts")
    live = "#detail script, #detail img, #detail svg, #detail a, #detail b, #list img, [onerror]"
    assert either.all(live) == []
    either.driver.refresh()  # the row's own fragment holds the attack, too
    either.until(is_shown)
    assert either.script("return window.pwned") is None
    assert either.complaints() == []


def test_even_our_own_mistakes_could_not_run_it(viewer):
    """What a careless line in the page might do with a model's text; in a timer, where the page's policy holds."""
    viewer.open()
    outcome = viewer.driver.execute_async_script("""
        const [done] = arguments;
        const careless = [
            () => (document.body.innerHTML = "<img src=x onerror='window.pwned = 1'>"),
            () => document.body.setAttribute("onclick", "window.pwned = 1"),
            () => document.body.append(Object.assign(document.createElement("script"), { text: "window.pwned = 1" })),
            () => eval("window.pwned = 1"),
        ];
        setTimeout(() => {
            const outcome = careless.map((attempt) => {
                try { attempt(); return "done"; } catch (error) { return error.name; }
            });
            setTimeout(() => done([...outcome, window.pwned]), 20);
        })""")
    assert outcome == ["TypeError", "TypeError", "TypeError", "EvalError", None]
    viewer.complaints()


def test_exported_page_asks_the_network_for_nothing(viewer):
    viewer.open()
    viewer.press(*"jjj]")
    viewer.wait_for("#mini-test-0012/1")
    assert viewer.requests() == viewer.complaints() == []
    fetch = "fetch('http://127.0.0.1:9/').catch(e => arguments[0](e.name))"
    assert viewer.driver.execute_async_script(fetch) == "TypeError"
    assert "Content Security Policy" in viewer.complaints()[-1]


def test_served_rows_are_fetched_when_looked_at(browser, server):
    viewer = Viewer(browser, server)
    viewer.open()
    viewer.press("j")
    viewer.wait_for("#mini-test-0007/1")
    asked = ["api/files", "api/index/0", "api/results/0", "api/rows/0/0", "api/rows/0/2"]
    assert [address.removeprefix(server) for address in viewer.requests()] == asked


def test_narrow_window_shows_list_or_trajectory_and_controls_have_names(viewer):
    viewer.open().named()
    with viewer.window(480, 900):
        viewer.open()
        assert viewer.shown("#list, #detail") == [True, False]
        viewer.click(".chip:nth-child(2)")
        viewer.wait_for("#mini-test-0007/1")
        assert viewer.shown("#list, #detail") == [False, True]
        assert viewer.too_wide() == 0
        viewer.click(".back")
        assert viewer.shown("#list, #detail") == [True, False]


def test_thousands_of_rows_stay_usable(browser, tmp_path):
    viewer = page_of(browser, tmp_path, many_rows(5000))
    assert viewer.count == "5,000 rows of 5,000"
    viewer.script("""
        const list = document.getElementById("list");
        for (let step = 1; step <= 20; step++) {
            list.scrollTop = (list.scrollHeight * step) / 20;
            list.dispatchEvent(new Event("scroll"));
        }""")
    viewer.until("return document.querySelector('.entry:last-child').ariaPosInSet === '1250'")
    assert viewer.texts(".entry-title")[-1].startswith("Task 1249.")
    assert len(viewer.all(".entry")) < 40
    viewer.search("above 4321 kilograms")
    viewer.wait_for_count("1 row of 5,000")
    viewer.press("Enter")
    viewer.wait_for("#mini-00571/3")


def test_empty_file(browser, tmp_path):
    viewer = page_of(browser, tmp_path, [])
    assert "This file holds no rows." in viewer.texts(".nothing")
    viewer.press(*"jk][g2tpdae/")
    assert viewer.count == "0 rows of 0"
    assert viewer.complaints() == []


def test_paper_has_the_dialogue_and_nothing_to_press(viewer):
    viewer.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        with viewer.window(794, 1123):  # A4
            viewer.open("#mini-test-0007/0")
            assert viewer.shown("#list, #detail, .jumps, #about") == [False, True, False, True]
            overflow = "return getComputedStyle(document.getElementById('detail')).overflowY"
            assert viewer.script(overflow) == "visible"
    finally:
        viewer.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
