"""Behaviour cloning as a command: every published configuration is one command more, with nothing downloaded."""

import json
from contextvars import copy_context

import pytest

from sweet_rl.cli.main import _run, load
from sweet_rl.commands import run_archer as archer
from sweet_rl.commands.run_bc import run_bc
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import DataError, UsageError
from sweet_rl.interface import grade
from sweet_rl.records import load_trajectories, read_rows
from sweet_rl.types import Score
from sweet_rl.worlds import load_tasks

SMALL = [
    *("rollout_size=2", "eval_size=1", "iterations=2", "eval_freq=2", "save_freq=2", "warmup_iter=1"),
    *("epochs=1", "actor_epochs=1", "batch_size=2", "grad_accum_steps=1", "max_steps=2", "max_new_tokens=8"),
    *("use_wandb=false", "quiet=true", "dtype=float32", "concurrency=2"),
]
"""Sizes; models, worlds, tasks, templates and methods are the configuration's own."""

QUICK = {"games": 1, "iterations": 1, "device": "cpu", "dtype": "float32", "quiet": True}

WORLDS = {
    "twenty_questions": ("archer_20q", "chai_20q", "online_filteredbc_20q"), "llm_twenty_questions": ("archer_llm_20q",),
    "guess_my_city": ("archer_city",), "adventure": ("archer_detective",), "webshop": ("archer_webshop",),
    "lantern": ("archer_debug",), "code": ("archer_code",),
}  # fmt: skip
FEW = {
    "twenty_questions": "twenty-questions:ten",
    "guess_my_city": "guess-my-city:test",
    "lantern": "lantern:test",
}
FEW["webshop"] = "webshop:2000-2004"


@pytest.mark.parametrize("world", WORLDS)
def test_every_published_configuration_begins_from_nothing(world, tmp_path, request):
    more, place = {}, []
    if world == "adventure":
        pytest.importorskip("jericho", reason="the extra detective is not installed")
        game = str(request.getfixturevalue("shared") / "data/games/detective.z5")
        more, place = {"env_load_path": game}, [f"env_load_path={game}"]
    if world == "lantern":
        place = ["world=lantern", "tasks=lantern:train", "eval_tasks=lantern:test"]
    tasks = FEW.get(world)
    if world == "code":
        tasks, more = str(some_functions(tmp_path)), {"agent_model": "expert"}
    capsys = request.getfixturevalue("capsys")
    run_bc(str(tmp_path / "start"), env_name=world, tasks=tasks, **QUICK, **more)
    assert {path.name for path in (tmp_path / "start").iterdir() if path.is_dir()} == {"critic", "policy"}
    going_on = capsys.readouterr().out.splitlines()[-1]
    assert going_on.startswith(f"sweet-rl run_archer --config-name {WORLDS[world][0]} ")
    assert all(one in going_on for one in place)
    for name in WORLDS[world]:
        folder = tmp_path / name
        told = [*SMALL, f"checkpoint_path={tmp_path / 'start'}", f"save_path={folder}", *place]
        archer.run(name, told, None)
        games = load_trajectories(folder / "trajectories.jsonl")
        assert len(games) == 4
        assert {game.provenance["agent_model"] for game in games} == {str(tmp_path / "start" / "policy")}
        assert (folder / "checkpoint-2").is_dir()


def some_functions(folder):
    path = folder / "functions.jsonl"
    path.write_text("".join(json.dumps(task.row) + "\n" for task in load_tasks("mini:easy:dev", num_tasks=6)))
    return path


def test_dialogues_that_are_imitated_are_graded(tmp_path, capsys):
    """Of experts and of those that hand in nothing, only the first are good enough."""
    tasks, files = some_functions(tmp_path), []
    for agent in ("expert", "questioner"):
        files.append(str(tmp_path / f"{agent}.jsonl"))
        simulate_interactions(str(tasks), files[-1], agent_model=agent, env_model="scripted", quiet=True)
    quick = {name: value for name, value in QUICK.items() if name != "games"}
    run_bc(str(tmp_path / "good"), env_name="code", dataset=",".join(files), min_reward=1, **quick)
    good, bad = ([one.reward for one in grade(load_trajectories(file))].count(1) for file in files)
    assert (good, bad) == (6, 0)
    assert " of 6 games to imitate" in capsys.readouterr().out
    with pytest.raises(DataError, match="no game with a return of at least 1"):
        run_bc(str(tmp_path / "bad"), env_name="code", dataset=files[1], min_reward=1, **quick)


class Length:
    """A grader of one's own: what a dialogue is worth is how long it is."""

    def grade(self, trajectories):
        for trajectory in trajectories:
            yield Score(float(len(trajectory.dialogue_history)))


def test_dialogues_keep_the_grades_that_they_have_and_others_may_be_given_by_a_grader(tmp_path, capsys):
    tasks, quick = some_functions(tmp_path), {name: QUICK[name] for name in QUICK if name != "games"}
    file = tmp_path / "played.jsonl"
    simulate_interactions(str(tasks), str(file), agent_model="questioner", env_model="scripted", quiet=True)
    own = f"{__name__}:Length"
    run_bc(str(tmp_path / "a"), env_name="code", dataset=str(file), min_reward=8, grader=own, **quick)
    assert " of 6 games to imitate" in capsys.readouterr().out  # hidden tests would give them less
    rows = [{**row, "reward": 9.0 + number} for number, (_, row) in enumerate(read_rows(file))]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_bc(str(tmp_path / "b"), env_name="code", dataset=str(file), min_reward=13, **quick)
    assert " of 2 games to imitate" in capsys.readouterr().out


def test_a_data_set_of_ones_own(tmp_path):
    run_bc(str(tmp_path / "first"), tasks="twenty-questions:ten", **QUICK)
    mine = tmp_path / "first" / "demonstrations.jsonl"
    quick = {name: value for name, value in QUICK.items() if name != "games"}
    run_bc(str(tmp_path / "second"), dataset=f"{mine},{mine}", min_reward=-10, **quick)
    assert not (tmp_path / "second" / "demonstrations.jsonl").exists()
    assert (tmp_path / "second" / "policy" / "model.safetensors").is_file()
    for wrong, told in (
        ({"dataset": str(mine), "min_reward": 5}, r"no game with a return of at least 5"),
        ({"dataset": str(mine), "env_name": "guess_my_city"}, r"is no task of guess_my_city"),
    ):
        with pytest.raises(DataError, match=told):
            run_bc(str(tmp_path / "third"), **wrong, **quick)
    assert not (tmp_path / "third" / "policy").exists()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"env_name": "chess"}, r"There is no world 'chess'\. Known: code"),
        ({"env_name": "code"}, r"A policy for --world code needs something to imitate: name --agent_model"),
        ({"env_load_path": "x"}, r"--env_load_path belongs to the world auto_explore or detective or"),
        ({"grader": "mine"}, r"--grader is for worlds that do not reward turns, and twenty_questions does"),
        ({"dataset": "x.jsonl", "skill": 0.5}, r"--skill belongs to the scripted agent"),
        ({"games": 0}, r"--games must be at least 1"),
        ({"learning_rate": 0.0}, r"--learning_rate must be positive"),
        ({"critic_lm": "roberta-base"}, r"--critic_lm must be tiny"),
        ({"policy_lm": "somewhere", "critic_lm": "tiny"}, r"only with a tiny policy"),
        ({"agent_model": "careful"}, r"careful"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_made(wrong, told, tmp_path):
    with pytest.raises(UsageError, match=told):
        run_bc(str(tmp_path / "start"), **wrong)
    assert not (tmp_path / "start" / "policy").exists()


def test_nothing_is_overwritten_unasked_and_a_killed_one_is_no_beginning(tmp_path):
    run_bc(str(tmp_path / "start"), tasks="twenty-questions:ten", **QUICK)
    before = (tmp_path / "start" / "policy" / "model.safetensors").read_bytes()
    with pytest.raises(UsageError, match=r"holds a policy already; pass --overwrite"):
        run_bc(str(tmp_path / "start"), tasks="twenty-questions:ten", **QUICK)
    run_bc(str(tmp_path / "start"), tasks="twenty-questions:ten", seed=3, overwrite=True, **QUICK)
    assert (tmp_path / "start" / "policy" / "model.safetensors").read_bytes() != before
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match=r"holds 'thesis.tex'"):
        run_bc(str(tmp_path / "thesis"), overwrite=True, **QUICK)
    (tmp_path / "start" / "policy").rename(tmp_path / "start" / "unfinished")  # as a kill leaves it
    told = [*SMALL, f"checkpoint_path={tmp_path / 'start'}", f"save_path={tmp_path / 'run'}"]
    with pytest.raises(UsageError, match=r"holds no policy"):
        archer.run("archer_20q", told, None)


def test_the_two_lines_of_the_page(tmp_path, capsys):
    """As a person types them; the first prints the second."""
    start, run = tmp_path / "start", tmp_path / "run"
    first = f"sweet-rl run_bc {start} --tasks twenty-questions:ten --games 1 --iterations 1 --quiet"
    second = f"sweet-rl run_archer --config-name archer_20q checkpoint_path={start} use_wandb=false"
    for line in (first, " ".join([second, *SMALL, f"save_path={run}"])):
        _, name, *words = line.split()
        copy_context().run(_run, name, load(name), words)
        assert line != first or capsys.readouterr().out.splitlines()[-1] == second
    assert (run / "final" / "model.safetensors").is_file()
    assert "run_bc" in (start / "run.json").read_text()
