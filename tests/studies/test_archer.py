"""The online study: its commands, its files and what is read from them; once for real, as small as it gets."""

import json

import pytest

from sweet_rl.algorithms.archer.replay import transitions
from sweet_rl.cli import load, values_of
from sweet_rl.command_line import read
from sweet_rl.commands.archer_config import load_config
from sweet_rl.errors import DataError, UsageError
from sweet_rl.records import replace_file, task_from_row, trajectory_to_row
from sweet_rl.studies.archer.demo import demo_archer
from sweet_rl.studies.archer.recipe import CONFIG, METHODS, START, OnlineStudy, learner_of, rounds
from sweet_rl.studies.archer.results import TITLES, results
from sweet_rl.studies.archer.swaps import swap
from sweet_rl.studies.outcome import table
from sweet_rl.studies.report.page import results_page
from sweet_rl.tiny_models.question_models import make_models
from sweet_rl.training.state_files import save_state
from sweet_rl.types import AgentTurn, Failure, Message, StopReason, Trajectory
from sweet_rl.worlds import world_of
from sweet_rl.worlds.twenty_questions.tasks import twenty_questions_tasks


def calls_of(study):
    return [call for chains in rounds(study) for chain in chains for call in chain]


def test_every_command_is_one_that_a_person_can_type(tmp_path):
    calls = calls_of(OnlineStudy(tmp_path, seeds=2, iterations=3))
    assert {call.run for call in calls if ":" not in call.run} == {"simulate_interactions", "run_archer"}
    for call in calls:
        if ":" not in call.run:
            words = [*call.words, *(f"--{name}={value}" for name, value in call.flags.items())]
            stage = load(call.run)
            values_of(stage, read(stage, words))
    assert len({call.name for call in calls}) == len(calls)  # what a step made is found again by its name


def test_methods_of_a_seed_begin_with_the_same_policy_and_differ_in_nothing_but_the_method(tmp_path):
    study = OnlineStudy(tmp_path / "it's a folder", iterations=3)
    configs = [load_config(CONFIG, study.overrides(method, 1)) for method in METHODS]
    assert [config["agent_type"] for config in configs] == list(METHODS)
    assert {config["policy_lm"] for config in configs} == {str(study.start(1) / "policy")}
    for config, method in zip(configs, METHODS, strict=True):
        assert config.pop("save_path") == str(study.run(method, 1))
        config.pop("agent_type")
    assert configs[0] == configs[1] == configs[2]
    assert (configs[0]["seed"], configs[0]["iterations"]) == (1, 3)
    assert set(TITLES) == {START, *METHODS}


# ---- what is read


def game(number, task, turns, *, solved, failed=False, thing="it"):
    entries = [Message("user", "Questions:\n")]
    for turn in range(turns):
        last = solved and turn == turns - 1
        entries.append(
            AgentTurn("assistant", f"Is {thing} {turn}?", input="", output="", reward=0.0 if last else -1.0)
        )
        entries.append(Message("user", "Yes." if last else "No."))
    stop = StopReason.USER_FAILED if failed else StopReason.ENDED if solved else StopReason.TURN_LIMIT
    return Trajectory(
        task=task,
        dialogue_history=tuple(entries),
        answer="",
        sample_index=number,
        stop_reason=stop,
        reward=None if failed else float(solved - turns),
        error=Failure("dead", "down") if failed else None,
    )


def write_games(path, games):
    replace_file(path, [json.dumps(trajectory_to_row(one)).encode() + b"\n" for one in games])


@pytest.fixture
def study(tmp_path):
    """One seed: the start solves one of two words in 4 turns, what came of it both, in 2 and 3."""
    study = OnlineStudy(tmp_path, seeds=1)
    banana, dog = [task_from_row(row) for row in twenty_questions_tasks("ten")][:2]
    before = [game(0, banana, 4, solved=True), game(0, dog, 20, solved=False)]
    after = [game(0, banana, 2, solved=True), game(0, dog, 3, solved=True)]
    for name in ("start", *METHODS):
        for greedy in (False, True):
            write_games(study.games(name, 0, greedy=greedy), before if name == "start" else after)
    rows = [
        {"step": 1, "env_steps": 500, "rollout.mean": -12.0, "q1.loss": 9.0},
        {"step": 2, "env_steps": 900, "rollout.mean": -8.0, "q1.loss": 5.0},
    ]
    for method in METHODS:
        if method != "online_filteredbc":
            study.swap(method, 0).write_text('{"turns": 5, "correlation": 0.75}')
        study.run(method, 0).mkdir()
        chosen = [
            {k: v for k, v in row.items() if method != "online_filteredbc" or k != "q1.loss"} for row in rows
        ]
        replace_file(
            study.run(method, 0) / "metrics.jsonl", [json.dumps(row).encode() + b"\n" for row in chosen]
        )
    return study


def test_results_say_what_the_files_say(study):
    found = results(study, {"teacher.jsonl": 1.0, "archer-0": 5.0, "archer-0.greedy.jsonl": 2.0})
    (part,) = found.comparisons
    (start,), (run,) = part.method("start").runs, part.method("archer").runs
    assert [start.measures[name].mean for name in ("return", "success", "turns")] == [-11.5, 0.5, 12.0]
    assert [run.measures[name].mean for name in ("return", "success", "turns")] == [-1.5, 1.0, 2.5]
    assert run.measures["greedy"].mean == -1.5
    assert run.measures["swapped"].mean == 0.75
    assert "swapped" not in part.method("online_filteredbc").runs[0].measures
    assert run.curves["return"] == ((0, -12.0), (500, -8.0))  # by the steps that were learned from
    assert run.curves["loss"] == ((1, 9.0), (2, 5.0))
    assert part.method("online_filteredbc").runs[0].curves["loss"] == ()
    first, second, *_ = found.dialogues
    assert [first.method, second.method] == ["start", "archer"]
    assert first.reward == -20.0  # the word with the greatest change comes first
    assert (second.turns[-1].agent, second.turns[-1].human) == ("Is it 2?", "Yes.")
    assert (found.seconds["ArCHer"], found.seconds["measuring"]) == (5.0, 2.0)


def test_page_and_table_take_the_results(study):
    found = results(study, {})
    assert "ArCHer reaches <strong>\u22121.50</strong>" in results_page(found)
    assert "ArCHer improves on its start: +10.00: one seed does not settle it" in table(found)


def test_a_game_that_failed_is_no_number(study):
    banana = task_from_row(twenty_questions_tasks("ten")[0])
    write_games(study.games("archer", 0, greedy=False), [game(0, banana, 3, solved=False, failed=True)])
    with pytest.raises(DataError, match="must be played to the end"):
        results(study, {})


# ---- the swap test


def test_what_the_critic_is_given_does_not_know_the_word():
    """The same dialogue about another word is the same to it, and the word is only in it once it was said."""
    banana, dog = [task_from_row(row) for row in twenty_questions_tasks("ten")][:2]
    transcript = world_of("twenty_questions").transcript()
    one, other = (transitions(game(0, task, 3, solved=False), transcript) for task in (banana, dog))
    assert one == other
    assert not any(word in turn.next_observation for turn in one for word in (banana.ground_truth, "dog"))


def test_a_critic_that_reads_no_dialogue_keeps_its_advantages_in_the_swap_test(study):
    """A tiny critic as it is drawn; and one whose heads are cut off from the dialogue."""
    banana, dog = [task_from_row(row) for row in twenty_questions_tasks("ten")][:2]
    games = [game(0, banana, 3, solved=False), game(0, dog, 2, solved=True, thing="that thing")]
    write_games(study.games("archer", 0, greedy=False), games)
    policy, critic = make_models(study.start(0), seed=0)
    overrides = [*study.overrides("archer", 0), f"policy_lm={policy}", f"critic_lm={critic}"]
    learner = learner_of(overrides, trained=False)

    def correlation():
        checkpoint = study.run("archer", 0) / "checkpoint-1"
        checkpoint.mkdir(exist_ok=True)
        save_state(checkpoint, learner.state_dict())
        (checkpoint / "trainer_state.json").write_text("{}")
        swap(str(study.games("archer", 0, greedy=False)), str(study.swap("archer", 0)), *overrides)
        return json.loads(study.swap("archer", 0).read_text())

    found = correlation()
    assert found["turns"] == 2  # the second of each: the first have nothing before them, the third is alone
    assert found["correlation"] < 0.999
    for head in (learner.critic.critic1, learner.critic.critic2):
        width = learner.critic.encoder.width
        head[0].weight.data[:, :width] = 0  # what reads the dialogue
        head[0].weight.data[:, 2 * width :] = 0  # and its products with the utterance
        head[0].weight.data[:, width : 2 * width] *= 10  # what is left is to tell two utterances apart
    for head in (learner.critic.v_critic1, learner.critic.v_critic2):
        head[-1].weight.data.zero_()
    assert correlation()["correlation"] == pytest.approx(1.0, abs=1e-6)


def test_games_about_one_word_are_no_swap_test(study):
    banana = task_from_row(twenty_questions_tasks("ten")[0])
    write_games(study.games("archer", 0, greedy=False), [game(0, banana, 3, solved=False)])
    with pytest.raises(DataError, match="must hold different games about two words"):
        swap(str(study.games("archer", 0, greedy=False)), str(study.swap("archer", 0)))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"seeds": 0}, "must be at least 1"),
        ({"iterations": 0}, "must be at least 1"),
        ({"skill": 1.5}, "--skill must be from 0 to 1, got 1.5"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_made(tmp_path, flags, message):
    with pytest.raises(UsageError, match=message):
        demo_archer(str(tmp_path / "out"), **flags)
    assert not (tmp_path / "out").exists()
