"""A package that sweet_rl knows nothing of (`tests/plugins`), installed beside it and used by its names."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sweet_rl import plugins
from sweet_rl.cli import load
from sweet_rl.cli.main import help_text
from sweet_rl.cli.parse import in_front, read, values_of
from sweet_rl.errors import UsageError
from sweet_rl.records import load_trajectories
from tests.conftest import ROOT, called
from tests.tiny_models import save_tiny_llama
from tests.training.pairs import dialogue_pairs, write_pairs

TRAINING = {"train_batch_size": 4, "eval_fraction": 0, "device": "cpu", "reference_cache": "none"}


@pytest.fixture(scope="module")
def installed_plugins(tmp_path_factory):
    """A folder for the path with the package of `tests/plugins` in it, and its entry points as installers write them."""
    target = tmp_path_factory.mktemp("installed")
    project = tomllib.loads((ROOT / "tests/plugins/pyproject.toml").read_text())["project"]
    shutil.copytree(ROOT / "tests/plugins/guessing", target / "guessing")
    about = target / f"{project['name']}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    with (about / "entry_points.txt").open("w") as file:
        for group, places in project["entry-points"].items():
            file.write("\n".join([f"[{group}]", *(f"{name} = {at}" for name, at in places.items()), ""]))
    return target


@pytest.fixture
def beside(installed_plugins, tmp_path, monkeypatch):
    """The package on the path of this process."""
    monkeypatch.syspath_prepend(str(installed_plugins))
    monkeypatch.chdir(tmp_path)
    plugins._installed.cache_clear()
    yield
    plugins._installed.cache_clear()


def stage(line, **flags):
    """Run a command line in this process."""
    words = [*line.split(), *(f"--{name}={value}" for name, value in flags.items())]
    name = " ".join(words[: 2 if words[0] in {"reflect", "guessing"} else 1])
    function = load(name)
    words = getattr(function, "rewrite_arguments", list)(words[len(name.split()) :])
    typed = read(function, words)
    front, values = in_front(function, typed.words, values_of(function, typed))
    function(*front, **values)


def lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


GAMES = "--task_type number_guessing --quiet"


def play(file, flags=""):
    stage(f"simulate_interactions numbers:test {file} {GAMES} {flags}")


def games(path):
    return [trajectory.reward for trajectory in load_trajectories(path)]


def test_a_loss_trains_two_steps_and_is_recorded(beside, tmp_path):
    model = save_tiny_llama(tmp_path / "model")
    pairs = write_pairs(tmp_path / "pairs.jsonl", dialogue_pairs(8))
    own = {"loss": "squared_hinge", "save_path": "out", "ckpt_path": "kept", "save_steps": 1}
    stage(f"train_dpo {model} {pairs}", **own, **TRAINING)
    first, second = lines("out/metrics.jsonl")
    assert (first["step"], second["step"], first["loss"]) == (1, 2, pytest.approx(1.0))  # h = 0
    assert second["grad_norm"] > 0
    record = json.loads(Path("out/run.json").read_text())
    assert record["settings"]["resolved"]["loss"]["name"] == "squared_hinge"
    assert [i["source"].rpartition("/")[2] for i in record["inputs"] if i["flag"] == "loss"] == ["loss.py"]
    made = json.loads(Path("kept/checkpoint-1/manifest.json").read_text())["made_from"]
    assert made["--loss"] == "squared_hinge"


def test_a_world_is_played_measured_and_learned_from(beside, capsys):
    play("games.jsonl")
    rows = lines("games.jsonl")
    assert {row["task_id"].partition("/")[0] for row in rows} == {"number_guessing"}
    assert all(-6 <= row["reward"] <= 0 for row in rows)  # halving 64 numbers takes 7 guesses at most
    assert rows[0]["provenance"]["settings"]["hints"] is True
    stage("evaluate_games games.jsonl")
    said = capsys.readouterr().out
    assert "32 episodes" in said
    assert re.search(r"^return +-5\.00$", said, re.MULTILINE)  # an odd number takes six guesses


def test_a_world_names_itself(beside):
    own = {"agent_model": "random", "num_tasks": 3, "hints": "no", "max_turns": 1}
    stage("simulate_interactions numbers:train a.jsonl --world guessing.world:WORLD", **own)
    assert [row["provenance"]["settings"]["hints"] for row in lines("a.jsonl")] == [False] * 3


def test_its_options_are_flags(beside):
    simulate = load("simulate_interactions")
    for world in ("number_guessing", "guessing.world:WORLD"):
        text = help_text("simulate_interactions", simulate, whole=False, arguments=["--world", world])
        assert (
            "Options of number guessing:\n  --hints   (default True; --nohints switches it off)\n        be told higher"
            in text
        )
    assert "--hints" not in help_text("simulate_interactions", simulate, whole=True, arguments=[])
    refused = called("play", "lantern", "--hints=no").stderr
    assert "--hints belongs to the world number_guessing, and this is" in refused


def test_a_world_has_stages_of_its_own(beside, tmp_path, monkeypatch):
    said = {}
    monkeypatch.setenv("COMP_LINE", "sweet-rl guessing ")
    for words in ("--help", "guessing count --help", "--complete", "guessing count --up_to 2"):
        done = called(*words.split())
        assert done.returncode == 0, done.stderr
        said[words] = done.stdout
    assert "guessing count " in said["--help"]
    assert "--up_to" in said["guessing count --help"]
    assert said["--complete"] == "count\n"
    assert (tmp_path / "numbers.txt").read_text() == "1\n2\n"
    assert "sweet-rl guessing count --up_to 2" in (tmp_path / "numbers.txt.run.json").read_text()


ONLINE = (
    "rollout_size=4 eval_size=1 iterations=2 eval_freq=2 save_freq=2 warmup_iter=1 epochs=1 actor_epochs=1 batch_size=2 "
    "grad_accum_steps=1 max_steps=3 dtype=float32 quiet=true save_path=run hints=false"
)


@pytest.mark.parametrize("name", ["number_guessing", "guessing.world:WORLD"])
def test_a_world_is_begun_and_learned_in_online(beside, capsys, name):
    """Behaviour cloning prints the next command; ArCHer takes the world's own options as settings."""
    stage(f"run_bc start --env_name {name} --games 1 --iterations 1 --device cpu --quiet")
    going_on = capsys.readouterr().out.splitlines()[-1]
    assert going_on.startswith("sweet-rl run_archer ")
    assert f" world={name}" in going_on
    stage(f"{going_on.removeprefix('sweet-rl ')} {ONLINE}")
    played = lines("run/trajectories.jsonl")
    assert len(played) == 8
    assert {row["task_id"].partition("/")[0] for row in played} == {"number_guessing"}
    said = [turn["content"] for row in played for turn in row["dialogue_history"] if turn["role"] == "user"]
    assert "Higher." not in said  # hints=false
    assert json.loads(Path("run/settings.json").read_text())["hints"] is False


TINY = {
    "model_name": "tiny", "reflect_model_name": "tiny", "use_8bit": "no", "device": "cpu", "lora_r": 4,
    "target_modules": "all-linear", "horizon": 3, "hints": "false", "reflect_max_new_tokens": 4, "quiet": "yes",
}  # fmt: skip


def test_agents_that_reflect_learn_in_a_world_and_are_measured(beside, capsys):
    """Its labels are the policy's; its tasks, options and bound of success its own."""
    batch = {"per_device_eval_batch_size": 4, "max_steps": 2, "save_steps": 2, "ckpt_path": "runs"}
    stage("reflect rl_finetune --env number_guessing --reflect", **TINY, **batch)
    assert "2 iterations are done" in capsys.readouterr().out
    policy = "runs/000_rl_finetune/checkpoint-2"
    logs = json.loads(Path(policy, "logs.json").read_text())
    steps = [step for entry in logs for episode in entry["log"] for step in episode["detail"]]
    assert {step["generation"]["content"] for step in steps} <= {str(number) for number in range(1, 65)}
    assert "Guess my number, at most sixty-four." in steps[0]["prompt"]
    flags = {**TINY, "eval_reps": 1, "per_device_eval_batch_size": 16, "report": "report.json"}
    stage(f"reflect evaluate {policy}+base --env guessing.world:WORLD", **flags)
    assert "numbers:test: success" in capsys.readouterr().out
    result = json.loads(Path("report.json").read_text())["checkpoints"][0]
    assert result["settings"]["hints"] is False
    assert result["levels"][0]["episodes"] == 32
    assert result["levels"][0]["success"] < 0.3  # three draws from 64 numbers


def test_dialogues_become_pairs_and_a_policy(beside, tmp_path, capsys):
    """SWEET-RL's chain on the world: simulated, measured, sampled, ranked, paired, exported, trained, looked at."""
    model = save_tiny_llama(tmp_path / "model")
    play("g.jsonl", "--agent_model random --repeats 4 --num_tasks 3")
    stage("evaluate_games g.jsonl --k 4 --ground_truth_preference_path whole.jsonl")
    stage(
        f"sample_best_of_n g.jsonl s.jsonl {model} --best_of_n 4 --max_tokens 4 --device cpu --data_fraction 1 --quiet"
    )
    stage(f"rank_best_of_n s.jsonl r.jsonl {model} --device cpu --quiet")
    stage("generate_random_pairs_from_ranks r.jsonl p.jsonl --num_pairs 2")
    stage(f"export_pairs p.jsonl trl.jsonl --tokenizer {model}")
    flags = " ".join(f"--{name} {value}" for name, value in TRAINING.items())
    stage(f"train_dpo {model} p.jsonl --save_path dpo {flags} --max_samples 8 --quiet")
    stage("visualize_dialogue_histories g.jsonl --export g.html")
    assert (tmp_path / "whole.jsonl").read_text().startswith("{")
    (first, *_) = (json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines())
    assert "Guess my number" in str(first)
    assert (tmp_path / "dpo/model.safetensors").is_file()
    assert "Guess my number" in (tmp_path / "g.html").read_text()
    assert "return, best of k" in capsys.readouterr().out


def test_a_human_answers_by_name_in_any_world(beside, tmp_path):
    for name, human in (("told", "number_teller"), ("lied", "guessing.human:Liar")):
        play(f"{name}.jsonl", f"--env_model {human} --num_tasks 2")
    assert games("told.jsonl") == [-5, -5]
    assert games("lied.jsonl") == [-8, -8]
    record = json.loads((tmp_path / "lied.jsonl.run.json").read_text())
    named = [entry["source"] for entry in record["inputs"] if entry["flag"] == "env_model"]
    assert named[-1].endswith("guessing/human.py")
    stage(
        "simulate_interactions mini:test code.jsonl --env_model number_teller --agent_model questioner --num_tasks 1 --quiet"
    )
    (row,) = load_trajectories("code.jsonl")
    assert row.provenance["env_model"] == "teller of code"
    assert row.dialogue_history[2].content == "That is not what I want."


def test_an_agent_plays_any_world_by_name(beside, tmp_path):
    play("a.jsonl", "--agent_model number_counter --num_tasks 2")
    assert games("a.jsonl") == [0, -2]  # 1 and 3
    play("b.jsonl", "--agent guessing.agent:Counter --agent_model 3 --num_tasks 2")
    assert games("b.jsonl") == [-8, 0]
    (first, _) = load_trajectories("b.jsonl")
    assert first.provenance["agent_model"] == "counter"
    assert first.provenance["settings"]["agent"] == "guessing.agent:Counter"
    stage(
        "simulate_interactions lantern:test l.jsonl --task_type lantern --agent_model number_counter --num_tasks 1 --max_steps 2 --quiet"
    )
    assert [turn.content for turn in load_trajectories("l.jsonl")[0].dialogue_history[1::2]] == ["1", "2"]
    with pytest.raises(UsageError, match="belongs to a model run by"):
        play("c.jsonl", "--agent_model number_counter --temperature 1")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--env_model number_telle", r"'number_telle' \(did you mean number_teller\?\). Known: .*auto.*, number_liar, number_teller.*module:ATTR"),
        ("--agent_model number_counte", r"'number_counte' \(did you mean number_counter\?\). Known: halving, random, number_c"),
        ("--agent guessing.human:Teller", "The agent 'guessing.human:Teller' is .*, which has no act"),
        ("--env_model guessing.world:WORLD", "The human 'guessing.world:WORLD' is .*, which has no reply"),
        ("--env_model guessing.humans:Teller", "cannot be imported: there is no module .guessing.humans"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_an_error_that_lists_the_known(beside, flags, says):
    with pytest.raises(UsageError, match=says):
        play("a.jsonl", flags)


def test_they_are_names_in_python_too(beside):
    import sweet_rl

    played = sweet_rl.simulate(
        "number_guessing", agent="number_counter", human="guessing.human:Liar", num_tasks=2
    )
    assert [one.reward for one in played] == [0, -2]
    assert played[1].dialogue_history[2].content == "Lower."
    for wrong in ({"agent": "number_counte"}, {"human": "number_lia"}):
        with pytest.raises(UsageError, match=r"did you mean number_(counter|liar)\?"):
            sweet_rl.simulate("number_guessing", num_tasks=1, **wrong)


def test_a_grader_scores_any_world(beside, tmp_path, capsys):
    play("g.jsonl", "--agent_model random --repeats 2 --num_tasks 3")
    before = games("g.jsonl")
    stage("evaluate g.jsonl --k 2 --grader brevity --margin 0.01 --preference_path p.jsonl --quiet")
    rows = [json.loads(line) for line in (tmp_path / "g.jsonl").read_text().splitlines()]
    turns = [sum(turn["role"] == "assistant" for turn in row["dialogue_history"]) for row in rows]
    assert (
        [row["reward"] for row in rows]
        == [row["grades"]["brevity"] for row in rows]
        == [1 / n for n in turns]
    )
    assert [row["grades"]["as played"] for row in rows] == before
    assert (tmp_path / "p.jsonl").read_text()
    assert "grade  " in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"no grader 'brevit' \(did you mean brevity\?\)"):
        stage("evaluate g.jsonl --k 2 --grader brevit")
    stage("evaluate g.jsonl --k 2 --margin 0.01 --report_path again.json")  # the world's own stage
    assert json.loads((tmp_path / "again.json").read_text())["k"] == 2


def test_a_person_plays_it(beside, monkeypatch):
    line = "play number_guessing --task 9 --oracle guessing.human:Liar --record me.jsonl"
    monkeypatch.setattr(sys, "stdin", io.StringIO("5\n12\n10\n"))
    done = called(*line.split())
    assert done.returncode == 0, done.stderr
    assert "You have 8 guesses." in done.stdout
    assert done.stdout.index("Lower.") < done.stdout.index("Higher.") < done.stdout.index("The solution: 10")
    assert load_trajectories("me.jsonl")[0].reward == -2


def test_they_keep_the_contracts(installed_plugins):
    """The suites over all worlds, humans and agents, in a process that has the package."""
    env = os.environ | {"PYTHONPATH": str(installed_plugins)}
    files = ["tests/test_game_conformance.py", "tests/test_conformance.py"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "number_"]
    done = subprocess.run([*command, *files], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "." in done.stdout.partition(" ")[0]
    assert "skipped" not in done.stdout


def test_no_file_of_ours_knows_the_package():
    project = tomllib.loads((ROOT / "tests/plugins/pyproject.toml").read_text())["project"]
    names = {name for group in project["entry-points"].values() for name in (*group, *group.values())}
    texts = {path: path.read_text() for path in (ROOT / "sweet_rl").rglob("*.py")}
    assert not [(path, name) for path, text in texts.items() for name in names if name in text]
