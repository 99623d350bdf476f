"""Online runs by their command: every configuration starts, stops anywhere and resumes as if it had not."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sweet_rl.chat import EMBEDDED, TokenizerChat
from sweet_rl.commands import run_archer as archer
from sweet_rl.commands.archer_config import CONFIGS, load_config
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.mini.backend.extras import Verdict, judge
from sweet_rl.online.loop import EpisodeFile, OnlineRun
from sweet_rl.online.tiny_models import make_models
from sweet_rl.policies.scripted import TeacherPolicy, as_answer
from sweet_rl.prompts import load_prompt
from sweet_rl.records import load_trajectories, read_rows
from sweet_rl.training.checkpoints import load_state
from sweet_rl.types import AgentTurn, Message, Score
from sweet_rl.worlds import load_tasks, world_of
from tests.online.test_loop import Watcher
from tests.states import same_state

TINY = [
    *("policy_lm=tiny", "critic_lm=tiny", "rollout_size=2", "eval_size=2", "iterations=2", "eval_freq=2"),
    *("save_freq=1", "warmup_iter=1", "epochs=2", "actor_epochs=1", "batch_size=2", "grad_accum_steps=2"),
    *("max_new_tokens=6", "max_steps=3", "use_wandb=false", "quiet=true", "max_context=96", "dtype=float32"),
    *("gradient_checkpointing=false", "concurrency=1"),
]
"""A run of seconds. One episode at a time: sums in batches of another size differ in their last digits."""

NAMES = sorted(path.stem for path in CONFIGS.glob("*.yaml") if path.stem != "default")


def options(name, folder, request=None):
    more = []
    if name == "archer_llm_20q":
        more = ["template=null"]  # bytes of the prompt would fill the context
    if name == "archer_detective":
        pytest.importorskip("jericho", reason="the extra detective is not installed")
        more = [f"env_load_path={request.getfixturevalue('shared') / 'data/games/detective.z5'}"]
    return [*TINY, *more, f"save_path={folder}"]


def debug(folder, *more):
    """A run of the smallest configuration."""
    archer.run("archer_debug", [*options("archer_debug", folder), *more], None)


class Stopped(Exception):
    pass


def stop_after(monkeypatch, count):
    """Break off in the middle of the run, at the count-th episode that is written."""
    rows, whole = [], EpisodeFile.add

    async def add(*arguments):
        rows.append(arguments)
        if len(rows) > count:
            raise Stopped
        await whole(*arguments)

    monkeypatch.setattr(EpisodeFile, "add", add)


def same_runs(one, other):
    for name in ("trajectories.jsonl", "evaluations.jsonl", "metrics.jsonl"):
        told = [[dict(row, provenance=None) for _, row in read_rows(run / name)] for run in (one, other)]
        assert told[0] == told[1]  # but for the folder of the tiny models
    states = [load_state(folder / "checkpoint-2") for folder in (one, other)]
    assert same_state(*states)


@pytest.mark.parametrize("name", NAMES)
def test_every_configuration_goes_on_to_the_same_weights(name, tmp_path, monkeypatch, request):
    archer.run(name, options(name, tmp_path / "whole", request), None)
    with monkeypatch.context() as patch:
        stop_after(patch, 3)  # in the middle of the second iteration
        with pytest.raises(Stopped):
            archer.run(name, options(name, tmp_path / "stopped", request), None)
    assert (tmp_path / "stopped" / "checkpoint-1").is_dir()
    assert not (tmp_path / "stopped" / "checkpoint-2").exists()
    archer.run(name, options(name, tmp_path / "stopped", request), None)
    same_runs(tmp_path / "whole", tmp_path / "stopped")
    assert len(load_trajectories(tmp_path / "whole" / "trajectories.jsonl")) == 4
    assert (tmp_path / "whole" / "final" / "model.safetensors").is_file() or name == "archer_llm_20q"


class Handing(Watcher):
    """Asks once, then hands in the solution of every other task; what it is told to learn from is kept."""

    def __init__(self, tasks):
        super().__init__(draws=0)
        self.answers, self.rows = [task.ground_truth for task in tasks], []
        self.known = {task.task_id: number for number, task in enumerate(tasks)}

    def update(self, draw, *, update_actor):
        self.rows += draw(60)
        return {}

    def rollout_policy(self, *, greedy):
        return TeacherPolicy(self.say)

    def say(self, observation):
        number = self.known[observation.task_id]
        if observation.turn == 0:
            return "Is there anything else?"
        return as_answer(self.answers[number] if number % 2 else "def total(): return None")

    def save_policy(self, path):
        pass


def handed_in(folder, rows, *more):
    """A run of these tasks: what learned, and the episodes on disk."""
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    own = [f"{key}={folder / 'tasks.jsonl'}" for key in ("tasks", "eval_tasks")]
    learner = Handing(load_tasks(str(folder / "tasks.jsonl")))
    told = [*options("archer_code", folder / "run"), *own, *more]
    archer.run("archer_code", told, None, lambda *_, **__: learner)
    return learner, load_trajectories(folder / "run/trajectories.jsonl")


class Broken:
    """Grades nothing."""

    def grade(self, trajectories):
        raise RuntimeError("no judge here")


made_for = []


class Patience:
    """Is made once, with its world; what an episode is worth is how long it took."""

    def __init__(self, world):
        made_for.append(world.name)

    def grade(self, trajectories):
        for trajectory in trajectories:
            yield Score(len(trajectory.dialogue_history) / 10)


def test_what_a_grader_breaks_at_is_kept_and_not_learned_from(tmp_path):
    told = options("archer_code", tmp_path / "run")
    with pytest.raises(ServiceError, match=r"Every episode of iteration 1 failed"):
        archer.run("archer_code", [*told, f"grader={__name__}:Broken"], None)
    kept = load_trajectories(tmp_path / "run/failures.jsonl")
    assert [str(game.error) for game in kept] == ["grading: RuntimeError: no judge here"] * 2
    assert all(game.dialogue_history for game in kept)


@pytest.mark.parametrize(("more", "worth"), [([], {0.0, 1.0}), ([f"grader={__name__}:Patience"], {0.4})])
def test_what_an_episode_is_worth_rewards_its_last_turn(more, worth, tmp_path):
    made_for.clear()
    rows = [task.row for task in load_tasks("mini:easy:dev", num_tasks=6)]
    learner, played = handed_in(tmp_path, rows, *more, "rollout_size=12")
    assert made_for == (["code"] if more else [])
    assert {game.reward for game in played} == worth
    for game in played:
        assert game.reward == 0.4 or game.reward == learner.known[game.task.task_id] % 2
        assert (game.provenance["env_model"], game.provenance["settings"]["task_type"]) == (
            "scripted",
            "code",
        )
    first = [row for row in learner.rows if row.action.startswith("Is there")]
    last = [row for row in learner.rows if not row.action.startswith("Is there")]
    assert {row.reward for row in first} == {0.0}
    assert {row.reward for row in last} == worth
    assert all(row.reward == row.trajectory_reward and row.terminated for row in last)


def test_an_episode_whose_task_allows_no_grade_is_left_out_and_counted(tmp_path):
    good, bad = load_tasks("mini:easy:dev", num_tasks=2)
    rows = [good.row, {**bad.row, "ground_truth": "def total(:"}]
    _, played = handed_in(tmp_path, rows, "rollout_size=8", "eval_freq=1", "iterations=1")
    left_out = load_trajectories(tmp_path / "run/failures.jsonl")
    assert {game.task.task_id for game in played} == {good.task_id}
    assert {game.reward for game in left_out} == {None}
    ((_, numbers),) = read_rows(tmp_path / "run/metrics.jsonl")
    assert (numbers["rollout.failed"], numbers["eval_rollout.failed"]) == (8 - len(played), 1)


def test_another_configuration_is_refused_with_what_differs(tmp_path):
    debug(tmp_path)
    with pytest.raises(UsageError, match=r"lm_lr was 0.0001, is 0.5"):
        debug(tmp_path, "lm_lr=0.5")
    debug(tmp_path, "save_freq=7")  # decides about nothing
    debug(tmp_path, "lm_lr=0.5", "overwrite=true")
    assert json.loads((tmp_path / "settings.json").read_text())["lm_lr"] == 0.5


@pytest.mark.parametrize("more", [[], ["overwrite=true"]])
def test_a_folder_of_something_else_is_refused(tmp_path, more):
    (tmp_path / "run.json").write_text('{"stage": "run_bc"}')
    (tmp_path / "checkpoint-500").mkdir()
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match=r"holds 'checkpoint-500', but no settings.json of run_archer"):
        debug(tmp_path, *more)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"defaults: [default, _self_\nlm_lr: 1", r"'mine' in .* cannot be read: .*mine.yaml.*line 1"),
        (b"defaults: [default, _self_]\nlm_lr: !odd 1\n", r"cannot be read: .*!odd"),
        (b"defaults: [default, _self_]\n# \xff\n", r"cannot be read: "),
        (b"lm_lr: 0.1\n", r"'mine' has no actor_epochs and .* Start it from the packaged ones"),
        (b"", r"has no actor_epochs and .* more settings"),
    ],
)
def test_a_broken_configuration_is_named(tmp_path, text, message):
    (tmp_path / "mine.yaml").write_bytes(text)
    with pytest.raises(UsageError, match=message):
        load_config("mine", ["quiet=true"], str(tmp_path))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rollout=3", r"rollout: there is no such setting \(did you mean rollout_size\?\)"),
        ("rollout_size=many", r"rollout_size must be a whole number, got 'many'"),
        ("wandb_key=1234", r"wandb_key: secrets are taken from the environment only"),
        ("+new=1", r"neither added nor removed"),
        ("lm_lr", r"written key=value"),
        ("with_prompt=true", r"with_prompt belongs to the world dangerous_taxi, and this is"),
        ("env_name=chess", r"There is no world 'chess'. Known: code,"),
        ("oracle=seq2seq", r"needs the folder of the model"),
        ("env_idx=10", r"env_idx must be from 0 to 9"),
        ("iterations=0", r"iterations must be at least 1"),
        ("warmup_iter=-3", r"warmup_iter must be at least 0, got -3"),
        ("agent_type=online_filteredbc filter_quantile=90", r"filter_quantile must be from 0 to 1, got 90"),
        ("agent_type=online_filteredbc filter_quantile=nan", r"filter_quantile must be from 0 to 1, got nan"),
        ("oracle_model=abc", r"oracle_model=abc belongs to oracle=seq2seq, openai, gradio"),
        ("world=lantern", r"tasks=.* holds no tasks of lantern .its `task_id` is .*; use 'lantern:train'"),
        ("eval_tasks=lantern:test", r"eval_tasks=lantern:test holds no tasks of twenty_questions"),
        ("env_model=auto", r"env_model belongs to worlds in which a human answers, and this is oracle"),
        ("grader=mine", r"grader belongs to worlds in which a human answers, and this is oracle"),
        ("world=code", r"tasks=twenty-questions:ten: the task .* has no test_cases, which code is graded by"),
        ("world=code tasks=mini:train eval_tasks=mini:test grader=mine", r"There is no grader 'mine'"),
        ("world=code oracle_model=x oracle=openai env_load_path=y", r"env_load_path belongs to .*, and this"),
        ("tasks=5", r"tasks must be text or null, got 5"),
        ("max_steps=few", r"max_steps must be a whole number or null, got 'few'"),
        ("save_path=null", r"save_path must be text, got None"),
        ("lm_lr==3", r"lm_lr must be a number, got '=3'"),
        ("agent_prompt_path=mine.txt", r"agent_prompt_path belongs to template=chat"),
        ("template=chat compat=published", r"template=chat: the published code, .* reads plain text"),
        ("template=chat agent_prompt_path=mine.txt", r"mine.txt"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_made(override, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        archer.run("archer_debug", [*TINY, f"save_path={tmp_path / 'run'}", *override.split()], None)
    assert not (tmp_path / "run" / "trajectories.jsonl").exists()


@pytest.mark.parametrize("name", ["archer_20q", "chai_20q", "online_filteredbc_20q", "archer_city"])
def test_published_configurations_play_all_words_and_measure_on_them(name):
    """157 objects, 91 cities; a run of one's own keeps a fifth apart."""
    config = load_config(name, [])
    world = world_of(config["env_name"])
    options = world.options()
    played, measured = archer._tasks(config, world, options)
    assert [len(played), len(measured)] == ([91, 91] if name == "archer_city" else [157, 157])
    apart = archer._tasks({**config, "tasks": None, "eval_tasks": None}, world, options)
    assert [len(tasks) for tasks in apart] == ([73, 18] if name == "archer_city" else [126, 31])


@pytest.fixture(scope="module")
def beginning(tmp_path_factory):
    """What may be named as checkpoint_path: a run of two seeds' tiny models, and what can be made of it."""
    root = tmp_path_factory.mktemp("beginning")
    made = make_models(root / "start", seed=7)
    debug(root / "run", "seed=7", "iterations=1", "warmup_iter=0")
    debug(root / "lora", "seed=7", "iterations=1", "warmup_iter=0", "use_lora=true")
    torch.save({"model_state_dict": load_file(made[0] / "model.safetensors")}, root / "bc.pt")
    return {
        "model": made[0], "start": root / "start", "run": root / "run",
        "checkpoint": root / "run" / "checkpoint-1", "adapter": root / "lora",
        "file": root / "bc.pt",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["model", "start", "run", "checkpoint", "adapter", "file"])
def test_a_run_begins_with_whatever_folder_holds_a_policy(kind, beginning, tmp_path, monkeypatch):
    begun = []

    def keep(run):
        weights = run._learner.policy.model.state_dict()
        begun.append({name: tensor.clone() for name, tensor in weights.items()})
        run._folder.newest()

    monkeypatch.setattr(OnlineRun, "run", keep)
    told = [*TINY[2:], f"save_path={tmp_path}"]  # without models
    archer.run("archer_debug", [*told, f"checkpoint_path={beginning[kind]}"], None)
    archer.run("archer_debug", [*told, f"save_path={tmp_path / 'fresh'}"], None)
    folder = beginning["run"] / "final" if kind in {"run", "checkpoint"} else beginning["model"]
    expected = load_file(folder / "model.safetensors")
    same, fresh = (all(torch.equal(one[name], known) for name, known in expected.items()) for one in begun)
    # an adapter is merged: what it was put on, and what it learned
    assert (same, fresh) == (kind != "adapter", False)


def test_a_folder_of_run_bc_brings_its_critic_unless_another_one_is_named(beginning, tmp_path):
    config = load_config("archer_20q", [f"checkpoint_path={beginning['start']}"])
    found = archer.models_of(config, [], tmp_path)
    folders = {f"{name}_lm": str(beginning["start"] / name) for name in ("policy", "critic")}
    assert found == folders | {"checkpoint_path": None}
    told = archer.models_of(config, ["critic_lm=roberta-base"], tmp_path)
    assert told["critic_lm"] == "roberta-base"
    with pytest.raises(UsageError, match=r"whole model and replaces policy_lm"):
        archer.models_of(config, ["policy_lm=gpt2"], tmp_path)


def test_what_holds_no_policy_is_refused(beginning, tmp_path):
    def begin(path):
        told = [*options("archer_debug", tmp_path / "run"), f"checkpoint_path={path}"]
        archer.run("archer_debug", [one for one in told if not one.startswith("policy_lm")], None)

    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("x")
    shutil.copytree(beginning["checkpoint"], tmp_path / "going" / "checkpoint-1")
    for name, told in {
        "nothing": "holds no policy. It may be a folder of run_bc",
        "thesis": "thesis' holds no policy",
        "going": "is a run that has not ended: name one of its checkpoint-N",
    }.items():
        with pytest.raises(UsageError, match=told):
            begin(tmp_path / name)
    with pytest.raises(UsageError, match=r"encoder, or not whole|no causal language model"):
        begin(beginning["start"] / "critic")


def test_published_defaults_and_a_configuration_of_ones_own_that_builds_on_a_packaged_one(tmp_path):
    expected = {"critic_lr": 2e-5, "lm_lr": 1e-6, "epochs": 50, "rollout_size": 128}
    assert expected.items() <= load_config("archer_20q", []).items()
    assert load_config("archer_webshop", [])["rollout_size"] == 512
    assert load_config("archer_llm_20q", [])["grad_accum_steps"] == 64
    (tmp_path / "mine.yaml").write_text("defaults: [archer_debug, _self_]\nlm_lr: 0.25\n")
    config = load_config("mine", ["gamma=0.5"], str(tmp_path))
    assert (config["lm_lr"], config["gamma"], config["rollout_size"]) == (0.25, 0.5, 8)


def test_a_template_is_the_worlds_own_or_a_files(tmp_path):
    world, tasks = world_of("llm_twenty_questions"), load_tasks("twenty-questions:ten", num_tasks=2)
    own = archer.template_of("own", world, tasks)
    assert own == archer.template_of("ask_for_object_prompt", world, tasks)
    assert all(task.hidden_information in own for task in tasks) and own.count("{obs}") == 1
    lantern = world_of("lantern")
    assert archer.template_of("own", lantern, tasks) == f"{lantern.system_prompt}\n\n{{obs}}"
    (tmp_path / "mine.txt").write_text("{words}: {obs}")
    assert archer.template_of(str(tmp_path / "mine.txt"), world, tasks[:1]).endswith(": {obs}")
    assert archer.template_of(None, world, tasks) is None


def test_a_value_that_hydra_cannot_read_is_text():
    for value in (
        *("mini:trades=10:train", "http://one/v1,http://two/v1", "~/my tasks (1), #2.jsonl", "it's a=b"),
        *("a=\\", "a=\\'b", "[x].jsonl"),
    ):
        assert load_config("archer_code", [f"tasks={value}"])["tasks"] == value
    for typed in (r"\n", r"'\n'", "'\n'"):  # as in a shell
        assert load_config("archer_code", [f"eos_str={typed}"])["eos_str"] == "\n"


def test_a_policy_reads_and_writes_in_its_own_chat_template(tmp_path):
    """As it does where dialogues are simulated: here the embedded agent never miscopies what it was told."""
    own = [
        f"policy_lm={EMBEDDED}",
        f"critic_lm={EMBEDDED}",
        "template=chat",
        "max_steps=6",
        "max_new_tokens=64",
    ]
    own += ["tasks=mini:trades=10:dev", "eval_tasks=mini:trades=10:dev", "rollout_size=8", "eval_freq=9"]
    own += ["iterations=1", "max_context=256", "agent_prompt_path=llm_agent_mini_prompt"]
    archer.run("archer_code", [*options("archer_code", tmp_path), *own], None)
    chat, instructions = TokenizerChat.from_pretrained(EMBEDDED), load_prompt("llm_agent_mini_prompt")
    turns = 0
    for game in load_trajectories(tmp_path / "trajectories.jsonl"):
        read, verdicts = [Message("system", instructions)], set()
        for entry in game.dialogue_history:
            if isinstance(entry, AgentTurn):
                turns += 1
                assert entry.input == chat.render(read)
                verdicts.add(judge(game.task.ground_truth, read[1:], entry.content))
                assert list(entry.token_ids) == [*chat.encode(entry.content), chat.tokenizer.eos_token_id]
            read.append(Message(entry.role, entry.content))
        assert not verdicts & {Verdict.WRONG, Verdict.OTHER}
    assert turns > 20


def test_every_setting_is_explained():
    for line in Path(CONFIGS / "default.yaml").read_text().splitlines():
        assert not line or line.startswith("#") or " # " in line, line
