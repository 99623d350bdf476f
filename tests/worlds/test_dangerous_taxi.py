"""DangerousTaxi: what the published code gave (goldens), rules in every state, tasks, drivers, training data."""

import asyncio
import hashlib
import json
from itertools import pairwise
from random import Random

import pytest

from sweet_rl.chat.reflect_format import policy_prompt, reflection_prompt
from sweet_rl.errors import DataError, EpisodeError, UsageError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.prompts import packaged_text
from sweet_rl.records import task_from_row
from sweet_rl.reflect_data.jobs import JobFile, collect
from sweet_rl.reflect_data.teachers import EmbeddedTeacher
from sweet_rl.types import Failure, Message, Observation, StopReason
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.dangerous_taxi.data import play_taxi, taxi_request, taxi_texts
from sweet_rl.worlds.dangerous_taxi.game import (
    ACTION_NAMES,
    DEPOTS,
    IN_TAXI,
    START_STATES,
    STATES,
    TABLE,
    TaxiDriver,
    TaxiGame,
    decode,
    draw,
    encode,
    plan,
    plan_to_pickup,
    read_state,
    taxi_row,
    thought,
)
from sweet_rl.worlds.text_games import TextGameEnv
from tests.worlds.playing import played

HEAD = "\nThe actions you can take now is:"


@pytest.fixture(scope="module")
def golden(shared):
    def read(name):
        return json.loads((shared / f"goldens/reflect_rl/{name}.json").read_text())

    return read


def task(curriculum="full", start=None, /, **more):
    return task_from_row(taxi_row(curriculum, start) | more)


def play(game, actions):
    return [game.step(str(action)) for action in actions]


def test_the_published_table_and_pictures(golden):
    taxi, transitions = golden("taxi"), golden("taxi_transitions")
    for place, name in enumerate(("next_state", "reward", "done")):
        assert [[entry[place] for entry in row] for row in TABLE] == transitions[name]
    assert list(START_STATES) == transitions["start_states"]
    assert {state: draw(int(state)) for state in taxi["render_samples"]} == taxi["render_samples"]
    every = "\n".join(draw(state) for state in range(500))
    assert hashlib.sha256(every.encode()).hexdigest() == taxi["render_sha256_joined_by_newline"]
    for place, state in taxi["encode_examples"].items():
        assert encode(*map(int, place.split(","))) == state
    assert {state: list(plan(int(state))) for state in taxi["oracle"]} == taxi["oracle"]


def test_published_episodes(golden):
    """By default the same, but that the first step ends the game, too, when it changes nothing."""
    episodes = golden("taxi")["episodes"]
    assert len(episodes) == 17
    for name, recorded in episodes.items():
        game = TaxiGame(max_turns=recorded["horizon"], compat="published", **recorded["kwargs"])

        def shown(game=game):
            return game.text.replace(packaged_text("taxi_rules"), "<TAXI_RULES_TEXT>")

        game.begin(recorded["start"], recorded["curriculum"])
        assert recorded["first_prompt"] in (None, shown()), name
        total = 0.0
        for step in recorded["steps"]:
            moved = game.step(step["action"])
            assert (game.state, moved.reward) == (step["state"], pytest.approx(step["reward"])), name
            assert (moved.terminated, moved.truncated) == (step["done"], step["truncated"]), name
            assert "obs" not in step or shown() == step["obs"], name
            total += moved.cost
        assert total == pytest.approx(recorded["total_cost"]), name
        assert recorded["last_prompt"] in (None, shown()), name

        game = TaxiGame(max_turns=recorded["horizon"], **recorded["kwargs"])
        game.begin(recorded["start"], recorded["curriculum"])
        first, theirs = game.step(recorded["steps"][0]["action"]), recorded["steps"][0]
        if name in {"bump_first_step", "illegal_pickup_first"}:
            assert (first.reward, first.terminated, first.truncated) == (-0.5, True, True)
            assert first.info == {"outcome": "no_effect", "won": False}
        else:
            assert (first.reward, first.terminated) == (pytest.approx(theirs["reward"]), theirs["done"]), name


def test_published_success_thresholds(golden):
    for case in golden("data_and_cli")["taxi_configer"]:
        for level, threshold in zip(case["dataset"], case["succ_thresholds"], strict=True):
            game = TaxiGame(compat="published")
            game.begin(1, level[0])
            assert game.success_threshold == threshold


def test_states_and_their_pictures():
    """The published rule compares pictures, ours states: they say the same. The taxi may hide the destination."""
    assert [encode(*decode(state)) for state in range(STATES)] == list(range(STATES))
    assert len(START_STATES) == 25 * 4 * 3
    for state in range(STATES):
        for entry in TABLE[state]:
            assert (draw(entry.state) == draw(state)) == (entry.state == state)
        if decode(state).passenger != decode(state).destination:
            assert read_state(f"before\n{draw(0)}\nand then:\n\n{draw(state)}\nThe actions ...") == state
    for text in ("no picture", "+---------+", f"{draw(0)[:-20]}\n+---------+"):
        assert read_state(text) is None
    hidden = encode(*DEPOTS[2], 0, 2)
    assert "D" not in draw(hidden)
    assert read_state(draw(hidden)) == hidden


def test_every_way_is_a_way_and_none_is_shorter():
    """Distances by relaxation over the whole table, not by the search itself."""
    distance, changed = [float("inf")] * STATES, True
    while changed:
        changed = False
        for state in range(STATES):
            best = min(1 + (0 if entry.done else distance[entry.state]) for entry in TABLE[state])
            changed |= best < distance[state]
            distance[state] = best
    for start in range(STATES):
        state, ends = start, []
        for action in plan(start):
            state, _, done = TABLE[state][action]
            ends.append(done)
        assert ends == [False] * (len(ends) - 1) + [True]
        assert len(ends) == distance[start]
    for start in (22, 488, 92, 2):
        way = plan_to_pickup(start)
        assert way == plan(start)[: len(way)]
        assert way[-1] == 4
    assert plan_to_pickup(encode(0, 0, IN_TAXI, 1)) == ()


@pytest.mark.parametrize("compat", ["fixed", "published"])
@pytest.mark.parametrize("curriculum", ["none", "pickup", "dropoff", "full"])
def test_the_oracle_succeeds_in_every_curriculum(curriculum, compat):
    """But for the published threshold that nothing reaches."""
    game = TaxiGame(compat=compat, max_turns=20)
    for start in START_STATES[::17]:
        game.reset(task(curriculum, start), seed=0)
        moves = []
        while not (moves and moves[-1].over):
            moves += play(game, game.best_actions()[:1])
        assert [move.info["won"] for move in moves] == [False] * (len(moves) - 1) + [True]
        unreachable = compat == "published" and curriculum == "none"
        assert (sum(move.cost for move in moves) < game.success_threshold) == (not unreachable)
        assert game.best_actions() == ()


def test_rewards_of_the_curricula_by_hand():
    game = TaxiGame()
    text = game.reset(task("dropoff", 22), seed=0)  # begins with the passenger in the taxi, pays no pickup
    assert (game.state, "X" in draw(game.state)) == (18, True)  # west, pickup
    assert text.startswith("You have already completed the following actions:\n\n\n--- Current State ---")
    moves = play(game, plan(18))
    assert [move.reward for move in moves] == [-0.05] * 4 + [1.0]
    assert moves[-1].info == {"outcome": "delivered", "won": True}
    assert sum(move.cost for move in moves) < game.success_threshold == 0
    game.reset(task("pickup", 22), seed=0)
    last = play(game, plan(22)[:2])[-1]  # as published it ends with a truncation that is won
    assert (last.reward, last.terminated, last.truncated, last.info["won"]) == (1.0, False, True, True)
    game.reset(task("full", 2), seed=0)
    assert [move.reward for move in play(game, [4, 5, 4])] == [1.0, -0.05, -0.05]  # the pickup pays once


def test_the_published_history_of_dropoff_begins_before_the_oracles_drive():
    game = TaxiGame(with_history=True)
    assert game.begin(246, "dropoff").count(draw(game.state)) == 2  # initial and current
    game = TaxiGame(with_history=True, compat="published")
    text, begins = game.begin(246, "dropoff"), f"--- Initial State ---\n{draw(246)}\n"
    assert decode(game.state).passenger == IN_TAXI
    assert (text.startswith(begins), text.count(draw(game.state)), "Step: 0" in text) == (True, 1, False)
    game.step(str(game.best_actions()[0]))
    assert (game.text.startswith(begins), game.text.count("--- Step:")) == (True, 1)
    assert game.begin(246, "full").count(draw(246)) == 2


def test_seeds_draw_the_start_and_nothing_of_an_earlier_game_is_left():
    game, other, drawn = TaxiGame(with_history=True), TaxiGame(), {}
    for seed in range(40):
        assert "Step: 0" not in game.reset(task(), seed=seed)
        assert game.state in START_STATES
        assert game.steps == 0
        drawn[seed] = game.state
        play(game, [0, 1])
    assert len(set(drawn.values())) > 20
    for seed in (3, 39):
        other.reset(task(), seed=seed)
        assert other.state == drawn[seed]


def test_labels_as_agents_write_them():
    game = TaxiGame(max_turns=3)
    for said in (" 0 \n", "0.", "0. move south", "move south"):
        before = game.reset(task("full", 246), seed=0)
        assert game.step(said).info["outcome"] == "moved"
        assert game.state == 346
    game.reset(task("full", 246), seed=0)
    *moves, last = play(game, ["6", "fly", ""])  # a label that there is not costs a step
    for move in (*moves, last):
        assert (move.reward, move.text, move.info["outcome"]) == (-0.05, before, "no_such_action")
    assert not any(move.over for move in moves)
    assert (last.terminated, last.truncated) == (False, True)
    after = game.step("0")
    assert (after.reward, after.over, after.text) == (0.0, True, before)


@pytest.mark.parametrize(
    "more", [{"start": 0}, {"start": 500}, {"start": "22"}, {"start": 22.0}, {"curriculum": "all"}]
)
def test_wrong_tasks_are_named(more):
    with pytest.raises(EpisodeError, match="must be") as caught:
        TaxiGame().reset(task("full", 22, **more), seed=0)
    assert caught.value.stop_reason is StopReason.WORLD_FAILED


@pytest.mark.parametrize(
    ("start", "curriculum", "actions", "settings", "won", "cut", "reward"),
    [
        (22, "pickup", plan(22)[:2], {}, True, False, 1.0),
        (6, "full", [1], {}, True, False, -0.5),
        (6, "full", [1], {"compat": "published"}, False, False, -0.05),
        (246, "full", [0, 1, 0], {"max_turns": 3}, False, True, -0.05),
    ],
)
def test_ends_in_the_world(start, curriculum, actions, settings, won, cut, reward):
    async def main():
        env = TextGameEnv(lambda: TaxiGame(**settings), threaded=True)
        await env.reset(task(curriculum, start), seed=0)
        return [await env.step(str(action)) for action in actions][-1]

    last = asyncio.run(main())
    assert (last.terminated, last.truncated, last.reward) == (won, cut, reward)
    assert last.stop_reason is (StopReason.ENDED if won else StopReason.TURN_LIMIT if cut else None)
    if curriculum == "pickup":
        assert last.info == {"game": {"outcome": "picked_up", "won": True, "cost": -0.95}}


def test_splits_share_nothing_and_are_the_same_in_every_curriculum():
    def starts(source):
        return [task.row["start"] for task in load_tasks(source)]

    everything, train, test = starts("taxi"), starts("taxi:full:train"), starts("taxi:full:test")
    assert (len(everything), len(train), len(test)) == (300, 240, 60)
    assert sorted(train + test) == everything
    assert starts("taxi:pickup:test") == starts("taxi:test") == starts("dangerous-taxi:none:test") == test
    assert test[:5] == [4, 9, 11, 21, 34]
    for source in ("taxi:fast", "taxi:full:dev", "taxi:train:full", "taxi:full:train:x"):
        with pytest.raises(UsageError, match="taxi:CURRICULUM"):
            load_tasks(source)


def test_rows():
    (first,) = load_tasks("taxi:pickup", num_tasks=1)
    assert (first.task_id, first.row["curriculum"]) == ("dangerous_taxi/pickup/1", "pickup")
    whole, rest = (
        {task.task_id: task for task in load_tasks(f"taxi:{name}")} for name in ("full", "dropoff")
    )
    end = ", ".join(["move south"] * 4 + ["drop off passenger"])
    assert whole["dangerous_taxi/full/22"].hidden_information == f"move west, pickup passenger, {end}"
    assert rest["dangerous_taxi/dropoff/22"].hidden_information == end
    assert load_tasks("taxi:none")[0].row["curriculum"] is None
    (anywhere,) = load_tasks("taxi:full:any")
    assert anywhere.row["start"] is None


def driven(policy, source, repeats=1, **settings):
    return played(lambda: TextGameEnv(lambda: TaxiGame(**settings)), policy, load_tasks(source), repeats)


@pytest.mark.parametrize("with_history", [False, True])
def test_the_planner_wins_everything_that_the_horizon_allows(with_history):
    for trajectory in driven(TaxiDriver(), "taxi:full", with_history=with_history):
        length = len(plan(trajectory.task.row["start"]))
        assert trajectory.extra["game"]["won"] == (length <= 15)
        if length <= 15:
            assert trajectory.reward == pytest.approx(2 - 0.05 * (length - 2))
            assert trajectory.reward > 1  # costs below the threshold of -1
    done = driven(TaxiDriver(), "taxi:dropoff:any", repeats=20, with_history=with_history)
    assert all(trajectory.extra["game"]["won"] for trajectory in done)  # it reads the start that a seed drew


def test_the_careless_one_seldom_plans():
    seen = [
        Observation(task.task_id, (Message("user", TaxiGame().begin(task.row["start"], "full")),), seed)
        for seed, task in enumerate(load_tasks("taxi"))
    ]
    best = [TaxiDriver()._say(one) for one in seen]
    for name, skill, share in (("careless", None, 0.1), ("random", None, 0), ("careless", 0.5, 0.5)):
        said, again = ([TaxiDriver(name, skill=skill)._say(one) for one in seen] for _ in range(2))
        agrees = sum(one == way for one, way in zip(said, best, strict=True)) / len(seen)
        assert agrees == pytest.approx(share + (1 - share) / 6, abs=0.07)
        assert said == again
    assert TaxiDriver()._say(Observation("x", (Message("user", "Hm?"),), 0)) == "0"  # without a picture
    with pytest.raises(UsageError):
        TaxiDriver(name="pilot")


def test_the_published_texts(golden):
    recorded = golden("data_and_cli")["gen_sft_taxi"]
    texts = taxi_texts(recorded["input"], compat="published")
    for name, lines in texts.files.items():
        assert [{"text": text} for text in lines] == recorded[name], name
    assert len(texts.files) == 3
    assert texts.skipped == {"record without a state": 1}


def test_texts_are_what_games_show():
    """One prompt for training and for games, also from records that have the rules."""
    shown = TaxiGame().begin(START_STATES[5])
    rules, instruction = f"{packaged_text('taxi_rules')}\n", packaged_text("taxi_instruction")
    for before in ("", rules, "Note that this is optimal.\n", "Spoiler: go south, it is optimal.\n"):
        texts = taxi_texts([{"state": before + shown, "reflection": "R", "action": 2}]).files
        assert texts["sft.jsonl"] == [f"{policy_prompt(shown, HEAD)}2"]
        reflected = reflection_prompt(shown, HEAD, instruction=instruction)
        assert texts["sft_reflection.jsonl"] == [f"{reflected}R"]
        assert texts["sft_policy.jsonl"] == [f"{policy_prompt(shown, HEAD, 'R', instruction=instruction)}2"]
    kept = taxi_texts([{"state": rules + shown, "reflection": "R", "action": 2}], keep_rules=True).files
    assert kept["sft.jsonl"] == [f"{rules}{policy_prompt(shown, HEAD)}2"]
    record = {"state": draw(3) + "--- Current State ---", "reflection": "", "action": "1", "best_action": "4"}
    assert taxi_texts([record], label="best").files["sft.jsonl"][0].endswith("4")
    del record["best_action"]
    with pytest.raises(DataError, match="best_action"):
        taxi_texts([record], label="best")


def recorded_game(seed, **flags):
    return play_taxi(seed, START_STATES, **flags)


def test_a_recorded_game_ends_with_an_action_without_effect():
    """As published it goes on."""
    shorter = 0
    for seed in range(30):
        ended, published = (
            recorded_game(seed, head_start=False, random_share=1.0, compat=compat)
            for compat in ("fixed", "published")
        )
        assert [moment.action for moment in ended] == [moment.action for moment in published[: len(ended)]]
        pictures = [moment.text.partition("State ---")[2] for moment in published]
        assert all(one != other for one, other in pairwise(pictures[: len(ended)]))
        if len(ended) < len(published):
            shorter += 1
            assert pictures[len(ended)] == pictures[len(ended) - 1]
    assert shorter > 20


def test_how_much_is_random():
    moments = recorded_game(4, random_share=0, head_start=False)
    start = next(state for state in START_STATES if draw(state) in moments[0].text)
    assert tuple(int(moment.action) for moment in moments) == plan(start)
    assert all(moment.action == moment.best for moment in moments)
    many = [recorded_game(seed, compat="published", head_start=False) for seed in range(400)]
    best = [moment.action == moment.best for moments in many for moment in moments]
    assert sum(best) / len(best) == pytest.approx(0.1 + 0.9 / 6, abs=0.02)


def test_a_head_start_shows_the_rest_of_the_way():
    """A game of the curriculum's second level begins with the passenger in the taxi and without a history."""
    games = [recorded_game(seed) for seed in range(200)]
    assert sum(any("X" in moment.text.split("State ---")[1] for moment in game) for game in games) > 50
    assert not any("Spoiler" in moment.text for moment in games[0])
    begun = [game[0].text.split("--- Current State ---") for game in games]
    riding = [history for history, state in begun if "X" in state]
    bare = [history for history in riding if "move" not in history and "pickup" not in history]
    assert 5 < len(bare) < len(riding) - 5


def test_a_model_gets_a_hint_and_the_record_does_not():
    assert "{SPOILER}" in taxi_request().template
    for compat, of_south in (
        ("fixed", "The best next action is: move south."),
        ("published", "The game is over."),
    ):
        moments = [moment for seed in range(20) for moment in recorded_game(seed, compat=compat)]
        hints = {moment.best: moment.hint for moment in moments}
        assert (hints["0"], hints["1"]) == (of_south, f"The best next action is: {ACTION_NAMES[1]}.")
        assert not any(moment.hint in moment.text for moment in moments)


def test_the_embedded_teacher_speaks_the_truth():
    """Waits at R, taxi two cells below; north was a good step, south a bad one."""
    below, at = encode(1, 0, 0, 1), encode(0, 0, 0, 1)
    said = {thought(below, 1, at, Random(seed)) for seed in range(30)}
    assert len(said) > 5
    for text in said:
        assert "pickup passenger" in text
        assert "row 0 column 0" in text
        assert "brought us nearer" in text or "good step" in text
    for last, state, some, words in (
        ((below, 0), encode(2, 0, 0, 1), ("away", "detour"), ("move north",)),
        ((at, 1), at, ("nothing", "no effect"), ()),
        ((None, None), encode(0, 4, 4, 1), ("",), ("drop off passenger", "destination")),
    ):
        text = thought(*last, state, Random(0))
        assert any(word in text for word in some)
        assert all(word in text for word in words)


def gather(path, num_records, *, at_once=4, teacher=None, seed=0):
    asked = teacher or EmbeddedTeacher()
    with JobFile(path, {}) as jobs:
        work = collect(
            recorded_game, taxi_request(), asked, jobs, seed=seed, num_records=num_records, at_once=at_once
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
    assert {failure["kind"] for row in rows for failure in row["failures"]} == {"empty_reply"}
    said = teacher.asked[0].messages
    assert "The actions you can take" not in said[1].content
    assert "In confidence: The best next action is" in said[1].content
    with pytest.raises(UsageError, match="gave no record"):  # it is not asked for ever
        gather(tmp_path / "b.jsonl", 10, teacher=Failing(lambda _: True))
