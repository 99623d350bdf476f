"""The taxi's records and training texts: goldens, what the driver does, what the teacher says."""

import asyncio
import itertools
import json
import random

import pytest

from sweet_rl.chat.reflect_format import policy_prompt, reflection_prompt
from sweet_rl.errors import DataError, UsageError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.reflect_data.jobs import JobFile, collect
from sweet_rl.reflect_data.teachers import EmbeddedTeacher
from sweet_rl.types import Failure
from sweet_rl.worlds.dangerous_taxi.data import (
    hint_of,
    play_taxi,
    taxi_request,
    taxi_texts,
)
from sweet_rl.worlds.dangerous_taxi.game import (
    ACTION_NAMES,
    START_STATES,
    TaxiGame,
    draw,
    encode,
    game_instruction,
    plan,
    rules_text,
)
from sweet_rl.worlds.dangerous_taxi.tasks import thought

HEAD = "\nThe actions you can take now is:"


def play(seed, **flags):
    return play_taxi(seed, START_STATES, **flags)


def test_the_published_texts(shared):
    golden = json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())["gen_sft_taxi"]
    texts = taxi_texts(golden["input"], compat="published")
    for name, lines in texts.files.items():
        assert [{"text": text} for text in lines] == golden[name], name
    assert len(texts.files) == 3
    assert texts.skipped == {"record without a state": 1}


def test_texts_are_what_games_show():
    """One prompt for training and for games, also from records that have the rules."""
    game = TaxiGame()
    shown = game.begin(START_STATES[5])
    for rules in (
        "",
        f"{rules_text()}\n",
        "Note that this is optimal.\n",
        "Spoiler: go south, it is optimal.\n",
    ):
        texts = taxi_texts([{"state": rules + shown, "reflection": "R", "action": 2}]).files
        instruction = game_instruction()
        assert texts["sft.jsonl"] == [f"{policy_prompt(shown, HEAD)}2"]
        assert texts["sft_reflection.jsonl"] == [
            f"{reflection_prompt(shown, HEAD, instruction=instruction)}R"
        ]
        assert texts["sft_policy.jsonl"] == [f"{policy_prompt(shown, HEAD, 'R', instruction=instruction)}2"]
    rules = f"{rules_text()}\n"
    kept = taxi_texts([{"state": rules + shown, "reflection": "R", "action": 2}], keep_rules=True).files
    assert kept["sft.jsonl"] == [f"{rules}{policy_prompt(shown, HEAD)}2"]


def test_the_target_may_be_the_best_action():
    record = {"state": draw(3) + "--- Current State ---", "reflection": "", "action": "1", "best_action": "4"}
    assert taxi_texts([record], label="best").files["sft.jsonl"][0].endswith("4")
    del record["best_action"]
    with pytest.raises(DataError, match="best_action"):
        taxi_texts([record], label="best")


def test_a_game_ends_with_an_action_without_effect():
    """As published it goes on."""
    shorter = 0
    for seed in range(30):
        ended = play(seed, head_start=False, random_share=1.0)
        published = play(seed, head_start=False, random_share=1.0, compat="published")
        assert [moment.action for moment in ended] == [moment.action for moment in published[: len(ended)]]
        pictures = [moment.text.partition("State ---")[2] for moment in published]
        assert all(one != other for one, other in itertools.pairwise(pictures[: len(ended)]))
        if len(ended) < len(published):
            shorter += 1
            assert pictures[len(ended)] == pictures[len(ended) - 1]
    assert shorter > 20


def test_nothing_random_is_the_oracle():
    moments = play(4, random_share=0, head_start=False)
    start = next(state for state in START_STATES if draw(state) in moments[0].text)
    assert tuple(int(moment.action) for moment in moments) == plan(start)
    assert all(moment.action == moment.best for moment in moments)


def test_the_share_of_random_actions():
    moments = [moment for seed in range(400) for moment in play(seed, compat="published", head_start=False)]
    best = sum(moment.action == moment.best for moment in moments) / len(moments)
    assert abs(best - (0.1 + 0.9 / 6)) < 0.02


def test_a_head_start_shows_the_rest_of_the_way():
    riding = [any("X" in moment.text.split("State ---")[1] for moment in play(seed)) for seed in range(100)]
    assert sum(riding) > 25
    assert not any("Spoiler" in moment.text for moment in play(0))


def test_behind_a_head_start_a_game_remembers_none_of_it_or_some():
    """A game of the curriculum's second level begins with the passenger in the taxi and without a history."""
    begun = [play(seed)[0].text.split("--- Current State ---") for seed in range(200)]
    riding = [history for history, state in begun if "X" in state]
    bare = [history for history in riding if "move" not in history and "pickup" not in history]
    assert 5 < len(bare) < len(riding) - 5


@pytest.mark.parametrize("compat", ["fixed", "published"])
def test_the_hint(compat):
    assert hint_of(None, compat=compat) == "The game is over."
    assert ACTION_NAMES[1] in hint_of(1, compat=compat)
    assert (hint_of(0, compat=compat) == "The game is over.") == (compat == "published")


def test_a_model_gets_the_hint_but_the_record_does_not():
    (moment, *_), request = play(1), taxi_request()
    assert "{SPOILER}" in request.template
    assert moment.hint
    assert moment.hint not in moment.text


def test_the_embedded_teacher_speaks_the_truth():
    """Waits at R, taxi two cells below; north was a good step, south a bad one."""
    below, at = encode(1, 0, 0, 1), encode(0, 0, 0, 1)
    said = {thought(below, 1, at, random.Random(seed)) for seed in range(30)}
    assert len(said) > 5
    assert all("pickup passenger" in text and "row 0 column 0" in text for text in said)
    assert all("brought us nearer" in text or "good step" in text for text in said)
    away = thought(below, 0, encode(2, 0, 0, 1), random.Random(0))
    assert "away" in away or "detour" in away
    assert "move north" in away
    bump = thought(at, 1, at, random.Random(0))
    assert "nothing" in bump or "no effect" in bump
    riding = thought(None, None, encode(0, 4, 4, 1), random.Random(0))
    assert "drop off passenger" in riding
    assert "destination" in riding


def gather(path, num_records, *, at_once=4, teacher=None, seed=0):
    teacher = teacher or EmbeddedTeacher()
    with JobFile(path, {}) as jobs:
        work = collect(
            play, taxi_request(), teacher, jobs, seed=seed, num_records=num_records, at_once=at_once
        )
        return asyncio.run(work)


def test_records_depend_on_the_seed_alone(tmp_path):
    one = gather(tmp_path / "a.jsonl", 40, at_once=1)
    many = gather(tmp_path / "b.jsonl", 40, at_once=7)
    assert one == many
    assert len(one) == 40
    assert one[0].keys() == {"state", "reflection", "action", "reason", "model", "best_action"}
    assert gather(tmp_path / "b.jsonl", 60)[:40] == many  # goes on
    assert gather(tmp_path / "c.jsonl", 40, seed=1) != one


class Failing(EmbeddedTeacher):
    name = "m"

    def __init__(self, when):
        self.when, self.asked = when, []

    async def say(self, asked):
        self.asked.append(asked)
        if self.when(asked):
            raise RequestFailed(Failure("empty_reply", "''"))
        return "fine"


def test_a_state_without_reflection_is_no_record(tmp_path):
    teacher = Failing(lambda asked: asked.seed % 2)
    records = gather(tmp_path / "a.jsonl", 10, teacher=teacher)
    assert {record["reflection"] for record in records} == {"fine"}
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()][1:]
    kinds = {failure["kind"] for row in rows for failure in row["failures"]}
    assert kinds == {"empty_reply"}
    said = teacher.asked[0].messages
    assert "The actions you can take" not in said[1].content
    assert "In confidence: The best next action is" in said[1].content


def test_a_teacher_that_never_answers_is_not_asked_for_ever(tmp_path):
    with pytest.raises(UsageError, match="gave no record"):
        gather(tmp_path / "a.jsonl", 10, teacher=Failing(lambda _: True))
