"""From Python: grades, pairs and pages of texts, episodes and web pages; credit for anyone's dialogues."""

import asyncio
import json
import math
import os
from pathlib import Path

import pytest

import sweet_rl
from sweet_rl.browsers.chromium import Chromium
from sweet_rl.commands.evaluate import evaluate_games
from sweet_rl.commands.evaluate_code import evaluate_code
from sweet_rl.commands.evaluate_html import evaluate_html
from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.pairs import with_solution
from sweet_rl.records import load_trajectories, read_rows, replace_rows, trajectory_to_row
from sweet_rl.types import Score
from tests.commands.test_step_stages import plain_mean
from tests.credit.test_score import recorded_rows
from tests.evaluation.samples import row, write
from tests.tiny_models import save_tiny_gpt2, save_tiny_llama, tiny_tokenizer

TASK = {
    "problem_description": "Write f.",
    "ground_truth": "def f(x):\n    return x + 1\n",
    "test_cases": {"a": "f(1)", "b": "f(-1)"},
}
RIGHT = "I WANT TO ANSWER:\n```python\ndef f(x):\n    return 1 + x\n```"
HALF = "def f(x):\n    return 2 * abs(x)"


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A file with right and wrong answers to the same tasks."""
    path = tmp_path_factory.mktemp("played") / "episodes.jsonl"
    sweet_rl.simulate("code", "mini:test", agent="expert", num_tasks=4, repeats=4, output_path=path)
    return path


def test_a_text_is_graded_without_an_episode():
    score = sweet_rl.grade(RIGHT, TASK)
    assert score.value == 1.0
    assert [test.outcome for test in score.tests] == ["passed", "passed"]
    assert sweet_rl.grade(HALF, TASK).value == 0.5
    assert [one.value for one in sweet_rl.grade([RIGHT, HALF, "no"], TASK)] == [1.0, 0.5, 0.0]
    other = TASK | {"ground_truth": "def f(x):\n    return 2 * abs(x)\n"}
    assert [one.value for one in sweet_rl.grade((HALF, HALF), [TASK, other])] == [0.5, 1.0]


def test_a_text_is_graded_in_the_sandbox(tmp_path):
    target = tmp_path / "written"
    text = f"def f(x):\n    open({str(target)!r}, 'w').write('x')\n    return x + 1"
    assert sweet_rl.grade(text, TASK).value == 0.0
    assert not target.exists()
    assert (
        sweet_rl.grade("def f(x):\n    while True: pass", TASK, timeout_s=0.2).tests[0].outcome == "timeout"
    )


def test_grading_where_an_event_loop_runs():
    async def cell():
        waited = sweet_rl.grade(RIGHT, TASK)
        awaited, others = await asyncio.gather(sweet_rl.agrade(RIGHT, TASK), sweet_rl.agrade([HALF], TASK))
        return waited, awaited, others[0].value

    waited, awaited, half = asyncio.run(cell())
    assert waited == awaited
    assert half == 0.5


@pytest.mark.timeout(300)
def test_grades_and_pairs_are_those_of_the_command(played, tmp_path):
    graded = sweet_rl.grade(load_trajectories(played))
    pairs, hidden = tmp_path / "pairs.jsonl", tmp_path / "hidden.jsonl"
    evaluate_code(
        str(played),
        k=4,
        preference_path=str(pairs),
        ground_truth_preference_path=str(hidden),
        report_path=str(tmp_path / "report.json"),
        quiet=True,
    )
    rows = [row for _, row in read_rows(played)]
    assert [trajectory_to_row(one) for one in graded] == rows
    assert len({row["reward"] for row in rows}) > 1
    assert sweet_rl.pairs(graded) == [row for _, row in read_rows(pairs)] != []
    assert sweet_rl.pairs(graded, with_ground_truth=True) == [row for _, row in read_rows(hidden)]


def test_pairs_of_a_game_are_those_of_the_command(tmp_path):
    path, pairs = tmp_path / "games.jsonl", tmp_path / "pairs.jsonl"
    settings = {"num_tasks": 3, "repeats": 3, "options": {"max_turns": 20}}
    episodes = sweet_rl.simulate("lantern", agent="random", output_path=path, **settings)
    evaluate_games(str(path), k=3, margin=1.0, preference_path=str(pairs))
    assert sweet_rl.pairs(episodes, margin=1.0) == [row for _, row in read_rows(pairs)]
    assert sweet_rl.grade(episodes) == episodes  # they have their rewards


def test_what_cannot_be_graded_or_paired_is_refused():
    episode = sweet_rl.play("code", TASK, agent="oracle")
    for words, call in {
        "grade them first": lambda: sweet_rl.pairs([episode]),
        "margin must be above 0": lambda: sweet_rl.pairs(sweet_rl.grade([episode]), margin=0),
        "Name its `task`": lambda: sweet_rl.grade("def f(): pass"),
        "leave `task` out": lambda: sweet_rl.grade([episode], TASK),
        "in one call": lambda: sweet_rl.grade(["x", episode], TASK),
        "2 texts and 1 tasks": lambda: sweet_rl.grade(["x", "y"], [TASK]),
        "no hidden tests": lambda: sweet_rl.grade("x", TASK | {"test_cases": {}}),
        "no way of grading 'fix'": lambda: sweet_rl.grade("x", TASK, grading="fix"),
        "no setting of grade 'timeout'": lambda: sweet_rl.grade("x", TASK, timeout=1),
        "must be positive": lambda: sweet_rl.grade("x", TASK, timeout_s=0),
        "no episodes to look at": lambda: sweet_rl.view([]),
    }.items():
        with pytest.raises(UsageError, match=words):
            call()


def test_a_page_is_a_file_and_is_not_overwritten(played, tmp_path):
    out = tmp_path / "page.html"
    assert sweet_rl.view(played, out).path == out
    assert "episodes.jsonl" in out.read_text()
    with pytest.raises(UsageError, match="exists already"):
        sweet_rl.view(played, out)

    async def cell():
        return sweet_rl.view(load_trajectories(played))

    assert "16 episodes" in asyncio.run(cell()).path.read_text()


@pytest.mark.browser
def test_a_notebook_shows_the_page(played, tmp_path, browser):
    page = tmp_path / "notebook.html"
    page.write_text(f"<!doctype html><body>{sweet_rl.view(played)._repr_html_()}")
    browser.get(page.as_uri())
    browser.switch_to.frame(0)
    told = json.dumps(browser.find_element("tag name", "body").text)
    assert "total(price, extras)" in told
    assert "16" in told
    browser.switch_to.default_content()


def test_two_agents_evaluated_and_compared():
    ours = sweet_rl.evaluate("code", "mini:test", agent="oracle", num_tasks=4, repeats=2)
    theirs = sweet_rl.evaluate("code", "mini:test", agent="constant", num_tasks=4, repeats=2)
    measures = ours.report.to_json()["measures"]
    assert measures["success"]["mean"] == measures["pass^2"]["mean"] == 1
    assert "success, %" in str(ours.report)
    found = sweet_rl.compare(ours.trajectories, theirs.trajectories)
    first = found.pairings[0].rows[0]
    assert (first.name, first.difference.mean, first.difference.wins) == ("success", 1, 4)
    assert "A is better than B" in str(found)
    with pytest.raises(UsageError, match="1 of 4 tasks are in A alone"):
        sweet_rl.compare(
            ours.trajectories, [one for one in theirs.trajectories if one.task != ours.trajectories[0].task]
        )


def test_files_and_memory(tmp_path):
    a = write(tmp_path / "a.jsonl", [row("t1", 1.0), row("t2", 1.0)])
    b = write(tmp_path / "b.jsonl", [row("t1", 0.0), row("t2", 1.0)])
    assert sweet_rl.compare(a, tmp_path / "b.jsonl").pairings[0].only_ours == ["t1"]
    assert sweet_rl.compare(b, a).pairings[0].only_theirs == ["t1"]


DRAWN = {"viewport": "320x240", "page_timeout_s": 100, "browsers": 1, "render_cache": "none"}


@pytest.fixture(scope="module")
def chrome():
    try:
        Chromium.find()
    except UsageError as error:
        if os.environ.get("SWEET_RL_REQUIRE_BROWSER") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_pages_are_played_graded_and_looked_at(chrome, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"max_turns": 2, **DRAWN}
    best = sweet_rl.play("frontend_design", agent="target", options=options)
    assert Path(best.answer).is_absolute()
    assert best.extra["target_image"].endswith("_target.png")
    floor = sweet_rl.play("html", agent="blank", options=options)
    graded = sweet_rl.grade([best, floor], rendering=DRAWN)
    assert graded[0].reward == 1.0 > graded[1].reward
    assert graded[0].extra["graded_with"]["viewport"] == "320x240"
    page = sweet_rl.view(graded).path.read_text()
    assert page.count("iVBORw0KGgo") >= 2
    assert '"kind":"design"' in page.replace(" ", "")

    task = best.task
    texts = [f"```html\n{task.ground_truth}\n```", "<html><body>Nothing</body></html>", "no page at all"]
    scores = sweet_rl.grade(texts, task, rendering=DRAWN, metric="ssim")
    assert scores[0].value == 1.0 > max(scores[1].value, scores[2].value) >= 0
    assert scores[0].details["grades"]["combined"] == 1.0
    assert scores[0].details["picture"] == "picture"
    assert scores[2].details["picture"] == "none"


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_file_of_pages_is_that_of_the_commands(chrome, tmp_path, monkeypatch):
    out = tmp_path / "runs" / "pages.jsonl"
    options = {"max_turns": 2, **DRAWN}
    episodes = sweet_rl.simulate("html", agent="improver", options=options, num_tasks=1, output_path=out)
    assert not Path(episodes[0].answer).is_absolute()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="name the folder of the episodes' file"):
        sweet_rl.grade(load_trajectories(out))
    (ours,) = sweet_rl.grade(load_trajectories(out), folder=out.parent, rendering=DRAWN)
    evaluate_html(str(out), quiet=True, **DRAWN)
    ((_, row),) = read_rows(out)
    assert (ours.reward, dict(ours.extra["grades"])) == (row["reward"], row["grades"])


class Length:
    """The shorter, the better."""

    def grade(self, trajectories):
        for one in trajectories:
            yield Score(1 / len(one.answer or "ab"), note="by its length")


def test_a_grader_by_name_or_as_an_object():
    named = sweet_rl.grade(["ab", "abcd"], TASK, grader=f"{__name__}:Length")
    assert [one.value for one in named] == [0.5, 0.25]
    assert sweet_rl.grade("ab", TASK, grader=Length()).value == 0.5
    assert asyncio.run(sweet_rl.agrade("ab", TASK, grader=Length())).value == 0.5


def test_a_grader_grades_any_world_and_keeps_the_reward_before():
    (episode,) = sweet_rl.simulate("lantern", agent="walkthrough", num_tasks=1)
    before = episode.reward
    (graded,) = sweet_rl.grade([episode], grader=f"{__name__}:Length")
    assert graded.reward == graded.extra["grades"][f"{__name__}:Length"] == 0.5
    assert graded.extra["graded_with"]["grader"] == f"{__name__}:Length"
    assert before is None or graded.extra["grades"]["as played"] == before


PAGE = {"problem_description": "A page.", "ground_truth": "<html><body>Hi</body></html>", "test_cases": {}}


@pytest.mark.parametrize(
    ("task", "settings", "says"),
    [
        (TASK, {"metric": "ssim"}, "metric belongs to grading by pages, and this is by tests"),
        (
            TASK,
            {"grader": Length(), "workers": 2},
            "workers belongs to grading by tests, and this is by grader",
        ),
        (TASK, {"grader": "nobody"}, "no grader 'nobody'"),
        (TASK, {"workers": 0}, "must be positive"),
        (PAGE, {"metric": "beauty"}, "no metric of pages 'beauty'"),
        (PAGE, {"rendering": {"viewpoint": "1x1"}}, "no setting of rendering 'viewpoint'.*viewport"),
        (PAGE, {"workers": 2}, "workers belongs to grading by tests, and this is by pages"),
    ],
)
def test_settings_that_are_wrong_or_would_do_nothing_are_refused_before_any_work(task, settings, says):
    with pytest.raises(UsageError, match=says):
        sweet_rl.grade("def f(x): return x + 1", task, **settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("critic")
    save_tiny_llama(folder / "critic", seed=1)
    save_tiny_llama(folder / "policy", seed=0)
    replace_rows(folder / "run.jsonl", recorded_rows())
    return folder


@pytest.fixture(scope="module")
def critic(folder):
    return sweet_rl.Critic(folder / "critic", reference_model=folder / "policy")


@pytest.fixture(scope="module")
def episodes(folder):
    return load_trajectories(folder / "run.jsonl")


def chat(episode):
    """The dialogue as other tools have it: roles and contents."""
    return [{"role": message.role, "content": message.content} for message in episode.dialogue_history]


def test_the_numbers_are_those_of_a_credit_file(folder, critic, episodes):
    ours = sweet_rl.credit(episodes, folder / "critic", reference_model=folder / "policy")
    told = [episode.task.ground_truth for episode in episodes]
    given = {
        "rows": [episode.dialogue_history for episode in episodes],
        "chat": [chat(one) for one in episodes],
    }
    for form, dialogues in given.items():
        assert critic.credit_many(told, dialogues) == [
            [pytest.approx(turn.hidden.advantage, abs=1e-5) for turn in turns] for turns in ours
        ], form
        assert critic.credit_many([None] * 3, dialogues) == [
            [pytest.approx(turn.without_hidden.advantage, abs=1e-5) for turn in turns] for turns in ours
        ], form


def test_by_hand_and_without_a_template_of_prompts(folder, critic, episodes):
    """Prompts are rendered by the critic's chat template, the system message first; an end token closes a turn."""
    messages = [{"role": "system", "content": "Be brief."}, *chat(episodes[0])]
    tokenizer = tiny_tokenizer()
    prompt = tokenizer.apply_chat_template(messages[:4], tokenize=False, add_generation_prompt=True)
    ids = [*tokenizer("What 1?", add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    said = plain_mean(folder / "critic", with_solution(prompt, "7"), ids)
    reference = plain_mean(folder / "policy", prompt, ids)
    assert critic.credit("7", messages)[1] == pytest.approx(said - reference, abs=1e-4)
    (views,) = critic.views(["7"], [messages])
    assert (views[1].critic, views[1].reference) == (
        pytest.approx(said, abs=1e-4),
        pytest.approx(reference, abs=1e-4),
    )


def test_the_papers_advantage_tells_the_reference_too(folder, episodes):
    paper = sweet_rl.Critic(folder / "critic", reference_model=folder / "policy", advantage="paper")
    said, turn = paper.credit("7", chat(episodes[0]))[0], episodes[0].dialogue_history[1]
    ids = list(turn.token_ids)
    both = [plain_mean(folder / one, with_solution(turn.input, "7"), ids) for one in ("critic", "policy")]
    assert said == pytest.approx(both[0] - both[1], abs=1e-4)


def test_sampled_tokens_and_log_probabilities_that_a_message_brings(folder, episodes):
    """Tokens of the critic's tokenizer are scored as they were sampled; others' texts are tokenised."""
    own = sweet_rl.Critic(folder / "critic")
    tokenizer = tiny_tokenizer()
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "list"]
    assert tokenizer("list", add_special_tokens=False)["input_ids"] != letters
    prompt = tokenizer.apply_chat_template(chat(episodes[0])[:1], tokenize=False, add_generation_prompt=True)
    said = {"role": "assistant", "content": "list", "logprobs": [-0.5] * 4, "finish_reason": "length"}
    for ids, scored in (
        (letters, letters),
        ([5] * 4, tokenizer("list", add_special_tokens=False)["input_ids"]),
    ):
        (found,) = own.credit("7", [*chat(episodes[0])[:1], said | {"token_ids": ids}])
        wanted = plain_mean(folder / "critic", with_solution(prompt, "7"), scored)
        assert found == pytest.approx(wanted + 0.5, abs=1e-4)
    with pytest.raises(UsageError, match="No turn has log-probabilities"):
        own.credit("7", chat(episodes[0]))


def test_hidden_information_moves_the_credit_and_what_has_no_score_says_why(folder, critic, episodes):
    one, other, none = (critic.credit(told, chat(episodes[0])) for told in ("7", "8", None))
    assert len({one[0], other[0], none[0]}) == 3
    assert critic.credit_many(["7", None, "8"], [chat(episodes[0])] * 3) == [
        [pytest.approx(value, abs=1e-5) for value in values] for values in (one, none, other)
    ]
    assert critic.credit("7", [{"role": "user", "content": "Hi"}]) == []
    parts = chat(episodes[0])  # parts of text are one text
    parts[0]["content"] = [{"type": "text", "text": "Write "}, {"type": "text", "text": "0."}]
    assert critic.credit("7", parts) == one
    long = {"role": "assistant", "content": "no " * 600}
    (views,) = critic.views(["7"], [[*chat(episodes[0]), {"role": "user", "content": "So?"}, long]])
    assert [view.why for view in views] == ["", "", "too_long"]
    assert views[2].advantage is None
    assert critic.facts["critic"].startswith("sha256:")
    assert critic.facts["critic"] != critic.facts["reference"]
    again = sweet_rl.Critic(folder / "critic").facts
    assert again == {"critic": critic.facts["critic"], "reference": None, "advantage": "released"}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "tool", "content": "4"}], r"dialogues\[0\]\[0\]' has calls of tools"),
        ([{"role": "assistant", "content": "", "tool_calls": [{}]}], "has calls of tools"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "part that is no text"),
        (["Hi"], "must be a message"),
        ([{"role": "human", "content": "Hi"}], "must be system, user or assistant"),
        ([{"role": "user", "content": None}], "must be a string"),
        ([{"role": "assistant", "content": "Hi", "token_ids": "12"}], "must be a list of numbers"),
    ],
)
def test_what_is_no_dialogue_of_texts_is_refused(critic, messages, words):
    with pytest.raises(DataError, match=words):
        critic.credit(None, messages)


def test_what_does_not_belong_together_is_refused(folder, critic, episodes, tmp_path):
    with pytest.raises(UsageError, match="1 pieces of hidden information for 2 dialogues"):
        critic.credit_many(["7"], [chat(episodes[0])] * 2)
    with pytest.raises(UsageError, match="needs a reference_model"):
        sweet_rl.Critic(folder / "critic", advantage="paper")
    bare = sweet_rl.Critic(save_tiny_gpt2(tmp_path / "gpt2"), reference_model=folder / "policy")
    with pytest.raises(UsageError, match="has no chat template"):
        bare.credit("7", chat(episodes[0]))
    assert math.isfinite(bare.credit("7", episodes[0].dialogue_history)[0])  # which bring their prompts
