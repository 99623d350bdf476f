"""The online study: its commands, its files and what is read from them; once for real, as small as it gets."""

import json
import re
from dataclasses import replace

import pytest

from sweet_rl.commands.archer_config import load_config
from sweet_rl.commands.run_archer import settings_of
from sweet_rl.errors import DataError
from sweet_rl.mini.objects.asker import guess, questions_about
from sweet_rl.mini.objects.oracle import NO, YES, answer
from sweet_rl.online.replay import transitions
from sweet_rl.online.tiny_models import make_models
from sweet_rl.records import replace_file, task_from_row, trajectory_to_row
from sweet_rl.studies.archer import recipe
from sweet_rl.studies.archer.recipe import BOUNDS, CONFIG, EXACT, METHODS, START, TASKS, TEACHER, OnlineStudy
from sweet_rl.studies.archer.results import CLAIMS, SAVED, TITLES, games_until, results
from sweet_rl.studies.archer.steps import area_of_names, exact_learner, learner_of, swap
from sweet_rl.studies.demos import demo_archer
from sweet_rl.studies.report.page import results_page
from sweet_rl.studies.runner import table
from sweet_rl.training.checkpoints import save_state
from sweet_rl.types import AgentTurn, Failure, Message, StopReason, Trajectory
from sweet_rl.worlds import world_of
from sweet_rl.worlds.twenty_questions import twenty_questions_tasks

WORDS = [task_from_row(row) for row in twenty_questions_tasks("sixteen")][:2]


EXACT_RUN = "sweet_rl.studies.archer.steps:learn_exactly"


def calls_of(study):
    return [call for chains in recipe.rounds(study) for chain in chains for call in chain]


def test_methods_of_a_seed_begin_with_the_same_policy_and_differ_in_their_own_settings_only(tmp_path):
    study = OnlineStudy(tmp_path / "it's a folder", iterations=3)
    configs = {method: load_config(CONFIG, study.overrides(method, 1)) for method in METHODS}
    start = str(study.run(START, 1) / "policy")
    assert {config["policy_lm"] for config in configs.values()} == {start}
    assert {config["critic_lm"] for config in configs.values()} == {start}
    shared = [
        {key: value for key, value in config.items() if key not in {*METHODS[method], "save_path"}}
        for method, config in configs.items()
    ]
    whole = configs["archer"]
    assert all(one[key] == whole[key] for one in shared for key in one if key not in METHODS["archer"])
    assert [config["save_path"] for config in configs.values()] == [str(study.run(m, 1)) for m in METHODS]
    assert (whole["seed"], whole["iterations"], whole["tasks"]) == (1, 3, TASKS)
    assert set(TITLES) == {START, TEACHER, *METHODS, *BOUNDS}

    for name, changed in (
        ("archer_single", {"double_critic": False}),
        ("archer_at_once", {"warmup_iter": 0}),
    ):
        other = configs[name]
        assert {k: other[k] for k in other if other[k] != whole[k] and k != "save_path"} == changed


@pytest.mark.parametrize("ablations", [False, True])
def test_ablations_are_run_where_they_are_asked_for(tmp_path, monkeypatch, ablations):
    ran = []
    monkeypatch.setattr(
        "sweet_rl.pipelines.running.run_steps", lambda steps, *_, **__: ran.extend(steps) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        demo_archer(str(tmp_path), ablations=ablations)
    learned = {step.name for step in ran if step.run in {"run_archer", EXACT_RUN}}
    assert learned == {f"{name}-0" for name in METHODS if ablations or name not in recipe.ABLATIONS}


def test_seeds_have_demonstrations_and_test_games_of_their_own(tmp_path):
    calls = calls_of(OnlineStudy(tmp_path, seeds=2, first_seed=5))
    taught = [call for call in calls if call.flags.get("agent_model") == TEACHER]
    assert [call.flags["seed"] for call in taught] == [5, 6]
    measured = {(call.name.split(".")[0][-1], call.flags["seed"]) for call in calls if ":measure" in call.run}
    assert measured == {("5", 1005), ("6", 1006)}


# ---- what is read


def game(number, task, turns, *, solved, failed=False, thing="it"):
    entries = [Message("user", "Questions:\n")]
    for turn in range(turns):
        last, said = solved and turn == turns - 1, f"Is {thing} {turn}?"
        entries.append(AgentTurn("assistant", said, input="", output=said, reward=0.0 if last else -1.0))
        entries.append(Message("user", "Yes." if last else "No."))
    stop = StopReason.USER_FAILED if failed else StopReason.ENDED if solved else StopReason.TURN_LIMIT
    ended = (
        {"reward": None, "error": Failure("dead", "down")} if failed else {"reward": float(solved - turns)}
    )
    return Trajectory(task, tuple(entries), "", sample_index=number, stop_reason=stop, **ended)


def write_games(path, games):
    replace_file(path, [json.dumps(trajectory_to_row(one)).encode() + b"\n" for one in games])


@pytest.fixture
def study(tmp_path):
    """One seed: the start solves one of two words in 4 turns, what came of it both, in 2 and 3."""
    study = OnlineStudy(tmp_path)
    first, second = WORDS
    before = [game(0, first, 4, solved=True), game(0, second, 20, solved=False)]
    after = [game(0, first, 2, solved=True), game(0, second, 3, solved=True)]
    for name in ("start", *METHODS):
        for greedy in (False, True):
            write_games(study.games(name, 0, greedy=greedy), before if name == "start" else after)
    write_games(study.teacher(0), before)
    for name in BOUNDS:
        write_games(study.bound(name), after)
    rows = [
        {"step": 1, "rollout.failed": 1, "rollout.mean": -12.0, "q1.loss": 9.0},
        {"step": 2, "rollout.failed": 0, "rollout.mean": -6.0, "q1.loss": 5.0},
        {"step": 3, "rollout.failed": 0, "rollout.mean": -4.0, "q1.loss": 5.0},
    ]
    for method in METHODS:
        critic = recipe.has_critic(method, METHODS[method])
        if critic:
            numbers = {"turns": 5, "correlation": 0.75, "auc": 0.9, "auc_swapped": None}
            study.swap(method, 0).write_text(json.dumps(numbers))
        study.run(method, 0).mkdir()
        chosen = [{k: v for k, v in row.items() if critic or k != "q1.loss"} for row in rows]
        if method == "ppo":
            chosen[-1] = chosen[-1] | {"rollout.mean": -9.0}
        replace_file(
            study.run(method, 0) / "metrics.jsonl", [json.dumps(row).encode() + b"\n" for row in chosen]
        )
    return study


def test_results_say_what_the_files_say(study):
    found = results(study, {})
    part, games = found.comparisons
    (start,), (run,) = part.method("start").runs, part.method("archer").runs
    assert [start.measures[name].mean for name in ("return", "success", "turns")] == [-11.5, 0.5, 12.0]
    assert [run.measures[name].mean for name in ("return", "success", "turns")] == [-1.5, 1.0, 2.5]
    assert run.measures["greedy"].mean == -1.5
    assert run.measures["swapped"].mean == 0.75
    assert "swapped" not in part.method("online_filteredbc").runs[0].measures
    assert (run.measures["auc"].mean, "auc_swapped" in run.measures) == (0.9, False)
    assert run.curves["return"] == ((0, -12.0), (63, -6.0), (127, -4.0))  # by the games learned from
    bounds = {method.name: method.mean("return") for method in part.methods if method.bound}
    assert bounds == {TEACHER: -11.5, "best": -1.5, "namer": -1.5, "random": -1.5}
    assert games.method("archer").mean("games") == 127
    assert games.method("ppo").mean("games") == 191  # never: those of one more iteration
    assert [games.method(name).mean("reached") for name in ("archer", "ppo")] == [1.0, 0.0]
    claims = [*part.claims, *games.claims]
    assert [claim.among for claim in claims] == [len(CLAIMS) + len(SAVED)] * (len(CLAIMS) + len(SAVED))
    first, second, *_ = found.dialogues
    assert [first.method, second.method] == ["start", "archer"]
    assert first.reward == -20.0  # the word with the greatest change comes first
    assert (second.turns[-1].agent, second.turns[-1].human) == ("Is it 2?", "Yes.")


def test_names_that_fit_the_answers_are_counted(study):
    sixteen = [row["ground_truth"] for row in twenty_questions_tasks("sixteen")]
    metal = questions_about(sixteen)[0][0]
    yes, no = (next(word for word in sixteen if answer(word, metal) == each) for each in (YES, NO))
    said = [(metal, YES), (guess(no), NO), (guess(yes), NO), (guess(yes), NO)]
    entries = [Message("user", "Questions:\n")]
    for words, reply in said:
        entries += [AgentTurn("assistant", words, input="", output=words), Message("user", reply)]
    played = replace(game(0, WORDS[0], 4, solved=False), dialogue_history=tuple(entries))
    write_games(study.games("archer", 0, greedy=False), [played])
    part = results(study, {}).comparisons[0]
    found = part.method("archer").runs[0].measures["fits"]
    assert (found.mean, found.n) == (pytest.approx(1 / 3), 3)
    assert "fits" not in part.method("chai").runs[0].measures  # names no word of the game


def test_games_until_a_level_and_how_often_the_name_that_wins_is_above_others():
    """The mean of two iterations in a row decides, and it is known with the second one."""
    lucky = ((0, -9.0), (10, -2.0), (20, -9.0), (30, -5.0), (40, -5.0))
    assert games_until(lucky, -5.5) == 10
    assert games_until(lucky, -5.0) == 40
    assert games_until(lucky, -1.0) is None
    assert games_until(lucky[:1], -9.0) is None
    # By hand: of two that win and two that do not, three pairs are right; questions do not count.
    turn = transitions(game(0, WORDS[0], 1, solved=False), world_of("twenty_questions").transcript())[0]
    names = [guess(word.hidden_information) for word in WORDS]
    said = [(names[0], 0.0), (names[1], -1.0), (names[1], 0.0), (names[0], -1.0), ("Is it 0?", -1.0)]
    turns = [replace(turn, action=action, reward=reward) for action, reward in said]
    assert area_of_names(turns, [3.0, 1.0, 1.5, 2.0, 9.0]) == 0.75
    assert area_of_names(turns[1:2], [1.0]) is None


def test_page_and_table_take_the_results(study, no_charts):
    found = results(study, {})
    page = " ".join(re.sub(r"<[^>]+>", "", results_page(found)).split())
    assert "ArCHer reaches \u22121.50" in page
    assert "Games until a mean return of -5.5: the methods in numbers" in page
    assert page.count("ArCHer reaches") == 1  # what nobody reached is no headline
    assert "ArCHer improves on imitation: +10.00: no interval" in table(found)


def test_games_that_failed_and_games_about_one_word_are_refused(study):
    path = study.games("archer", 0, greedy=False)
    write_games(path, [game(0, WORDS[0], 3, solved=False, failed=True)])
    with pytest.raises(DataError, match="must be played to the end"):
        results(study, {})
    write_games(path, [game(0, WORDS[0], 3, solved=False)])
    with pytest.raises(DataError, match="must hold different games about two words"):
        swap(str(path), str(study.swap("archer", 0)))


# ---- a critic that makes no errors


def test_the_exact_critic_says_what_an_utterance_gains_on_the_best_play(tmp_path):
    """Known by hand: of sixteen words a question that halves them is best, and the first name costs 5/8 of a turn."""
    from sweet_rl.online.policy import Utterance

    study = OnlineStudy(tmp_path)
    make_models(study.run(START, 0), seed=0)
    settings = settings_of(load_config(CONFIG, study.overrides(EXACT, 0)))
    learner = exact_learner(settings, chat_format=world_of("twenty_questions").transcript())
    opening, asked = "Questions:\n", "Questions:\nIs it made of metal? No.\n"
    said = [
        (opening, "Is it made of metal?", 0.0), (asked, "Is it made of metal?", -1.0),
        (opening, "nonsense", -1.0), (opening, guess("tree"), -0.625), (asked, guess("truck"), -1.0),
        (asked, "Is it bigger than a cat?", 0.0),
    ]  # fmt: skip
    spoken = [Utterance(text, (), True) for _, text, _ in said]
    assert learner._advantages([one for one, _, _ in said], spoken).tolist() == pytest.approx(
        [gain for _, _, gain in said]
    )
    assert learner._train_critic(lambda _: 1 / 0) == []


@pytest.mark.slow
def test_every_step_of_the_study_runs(tmp_path, monkeypatch):
    """For real, as small as it gets, measurements too; of the methods one of each kind."""
    monkeypatch.setattr(recipe, "IMITATION", {**recipe.IMITATION, "iterations": 1})
    small = {"rollout_size": 2, "epochs": 1, "warmup_iter": 0, "max_steps": 3, "device": "cpu"}
    kinds = ("archer", "ppo", EXACT)
    methods = {name: {**METHODS[name], **small, "actor_epochs": 1} for name in kinds}
    study = OnlineStudy(tmp_path, iterations=1, teacher_games=1, test_games=1, methods=methods)
    for step in calls_of(study):
        step()
    for method in kinds:
        assert json.loads((study.run(method, 0) / "run.json").read_text())["status"] == "finished"
    assert "ArCHer" in results_page(results(study, {}))
    (again,) = [step for step in calls_of(replace(study, iterations=2)) if step.run == EXACT_RUN]
    again()
    metrics = (study.run(EXACT, 0) / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in metrics] == [1, 2]


# ---- the swap test


def test_a_critic_that_reads_no_dialogue_keeps_its_advantages_in_the_swap_test(study):
    """A tiny critic as it is drawn; and one whose heads are cut off from the dialogue."""
    first, *others = [task_from_row(row) for row in twenty_questions_tasks("sixteen")][:4]
    games = [game(0, first, 3, solved=False)]
    games += [game(0, word, 2, solved=True, thing=f"thing {number}") for number, word in enumerate(others)]
    write_games(study.games("archer", 0, greedy=False), games)
    make_models(study.run(START, 0), seed=0)
    overrides = study.overrides("archer", 0)
    learner = learner_of(overrides, trained=False)

    def correlation():
        checkpoint = study.run("archer", 0) / "checkpoint-1"
        checkpoint.mkdir(exist_ok=True)
        save_state(checkpoint, learner.state_dict())
        (checkpoint / "trainer_state.json").write_text("{}")
        swap(str(study.games("archer", 0, greedy=False)), str(study.swap("archer", 0)), *overrides)
        return json.loads(study.swap("archer", 0).read_text())

    found = correlation()
    assert found["turns"] == 4  # the second of each: the first have nothing before them, the third is alone
    assert found["correlation"] < 0.999
    for head in (learner.critic.critic1, learner.critic.critic2):
        width = learner.critic.encoder.width
        head[0].weight.data[:, :width] = 0  # what reads the dialogue
        head[0].weight.data[:, 2 * width :] = 0  # and its products with the utterance
    for head in (learner.critic.v_critic1, learner.critic.v_critic2):
        head[-1].weight.data.zero_()
    assert correlation()["correlation"] == pytest.approx(1.0, abs=1e-6)
