"""Every stage that writes leaves a record with all that it writes: each one is run, as small as it gets."""

import inspect
import json
from contextlib import nullcontext

import pytest

from sweet_rl.cli import load, stages
from sweet_rl.errors import UsageError
from sweet_rl.runs.facts import digest_of, runs_below
from sweet_rl.users.server import start_server
from tests.browsers.fake_renderer import FakeRenderer
from tests.conftest import ROOT
from tests.states import without_record

WRITES_NOTHING = {"credit check"} | set(
    "fetch_model runs serve_credit serve_env serve_shop serve_simulator show_tokens".split()
)
TRAINING = {"train_batch_size": 4, "micro_train_batch_size": 2, "max_len": 1024, "eval_fraction": 0.0}
TRAINING |= {"quiet": True, "device": "cpu", "max_samples": 8}
ONLINE = [
    *("policy_lm=tiny", "critic_lm=tiny", "rollout_size=2", "eval_size=1", "iterations=1", "warmup_iter=1"),
    *("epochs=1", "actor_epochs=1", "batch_size=2", "max_new_tokens=4", "max_steps=2", "use_wandb=false"),
    *("quiet=true", "max_context=96", "dtype=float32", "save_path=online"),
]


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    from sweet_rl.commands import worlds as playing

    monkeypatch.chdir(tmp_path)
    fake = FakeRenderer()
    monkeypatch.setattr("sweet_rl.browsers.open_renderer", lambda settings=None: fake)
    monkeypatch.setattr(playing, "_read_line", lambda prompt, typed: "Is it a dog?")


class Kept:
    """Runs stages, and looks at what is new on the disk after each."""

    def __init__(self, folder):
        self.folder = folder
        self.known = set()
        self.stages = []

    def __call__(self, stage, *words, fails=None, **flags):
        before = {entry: state(entry) for entry in self.folder.rglob("*") if entry.is_file()}
        with nullcontext() if fails is None else pytest.raises(fails):
            load(stage)(*words, **flags)
        found = runs_below(self.folder)
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        changed = [path for path in files if before.get(path) != state(path)]
        changed = [path for path in changed if not path.name.endswith(".index.sqlite")]  # can be made anew
        new = [run.content for run in found if run.content["id"] not in self.known]
        self.known |= {run["id"] for run in new}
        self.stages.append(stage)
        own = [run for run in new if run["stage"] == stage]
        assert len(own) == 1, stage
        self.check(own[0], stage, flags, "finished" if fails is None else "failed", changed)
        return own[0]

    def check(self, record, stage, flags, status, changed):
        assert record["status"] == status
        assert [session["status"] for session in record["sessions"]] == [status]
        parameters = inspect.signature(load(stage)).parameters
        assert set(parameters) - {"options"} <= set(record["settings"])
        assert record["command"].startswith(f"sweet-rl {stage} ")
        changes = [name for name in parameters if name in flags and flags[name] != parameters[name].default]
        assert all(f"--{name} " in record["command"] for name in changes)
        assert {"sweet_rl", "python", "torch", "transformers"} <= record["versions"].keys()
        assert {"system", "processor", "cores", "memory_gib"} <= record["machine"].keys()
        assert record["wall_s"] >= 0
        assert record["finished"] >= record["started"]
        outputs = {self.folder / entry["path"]: entry for entry in record["outputs"]}
        for path, entry in outputs.items():
            assert entry["sha256"] == digest_of(path)["sha256"]
        ours = {".log", ".lock"}
        written = [path for path in changed if path.suffix not in ours and "run.json" not in path.name]
        for path in written:
            assert {path, *path.parents} & outputs.keys(), f"{stage} does not say that it wrote {path}"
        if status == "finished":
            assert outputs


def state(path):
    facts = path.stat()
    return facts.st_mtime_ns, facts.st_size


def test_every_stage_is_recorded_or_writes_nothing():
    for name in stages():
        kept = getattr(load(name), "__recorded__", None)
        assert kept == (None if name in WRITES_NOTHING else name)


def test_the_stages_of_sweet_rl(tmp_path, monkeypatch):
    kept = Kept(tmp_path)
    kept("generate_tasks", "tasks.jsonl", num_tasks=4)
    played = kept(
        "simulate_interactions", "tasks.jsonl", "runs/a.jsonl", agent_model="embedded", env_model="scripted",
        best_of_n=2, max_tokens=40, device="cpu", quiet=True, seed=3,
    )  # fmt: skip
    rows = [json.loads(line) for line in (tmp_path / "runs/a.jsonl").read_text().splitlines()]
    assert {row["provenance"]["run"] for row in rows} == {played["id"]}
    turns = [turn for row in rows for turn in row["dialogue_history"] if turn["role"] == "assistant"]
    (model,) = played["usage"]["agent"].values()
    assert model["requests"] == model["replies"] == len(turns)
    assert model["completion_tokens"] == sum(len(turn["token_ids"]) for turn in turns)
    assert model["prompt_tokens"] > model["completion_tokens"]
    assert played["seeds"] == {"seed": 3}
    (named,) = [entry for entry in played["inputs"] if entry["flag"] == "agent_model"]
    assert named["sha256"] == digest_of(ROOT / "sweet_rl/mini/agent")["sha256"]
    (tasks,) = [entry for entry in played["inputs"] if entry["flag"] == "input_path"]
    made = json.loads((tmp_path / "tasks.jsonl.run.json").read_text())
    assert (tasks["made_by"], tasks["sha256"]) == (made["id"], made["outputs"][0]["sha256"])
    graded = kept(
        "evaluate_code", "runs/a.jsonl", k=2, preference_path="pairs.jsonl",
        ground_truth_preference_path="gt.jsonl", workers=1, quiet=True,
    )  # fmt: skip
    assert [entry["path"] for entry in graded["outputs"] if "changed_in_place" in entry] == ["runs/a.jsonl"]

    kept("eval", model="questioner", tasks="tasks.jsonl", output_dir="evaluated", quiet=True)
    kept("compare", "evaluated", "evaluated", html="comparison.html")
    kept("simulate_interactions", "twenty-questions:ten", "g.jsonl", task_type="twenty_questions", num_tasks=4,
         best_of_n=2, skill=0.3, quiet=True)  # fmt: skip
    kept("evaluate_games", "g.jsonl", k=2, preference_path="gp.jsonl")
    kept("evaluate", "g.jsonl", k=2, report_path="again.json")
    kept("credit measure", "g.jsonl", "asker", skill=0.3, continuations=2, quiet=True)
    kept("credit score", "g.jsonl", methods="outcome", output_path="g.scores.jsonl", quiet=True)
    kept("credit compare", "g.measured.jsonl", "g.scores.jsonl", html="credit.html")
    kept("play", "twenty_questions", tasks="twenty-questions", task=11, record="mine.jsonl")
    kept("visualize_dialogue_histories", "runs/a.jsonl", export="a.html")
    kept("view", "runs", export="all.html")

    agent = str(ROOT / "sweet_rl/mini/agent")
    trained = kept("train_sft", agent, "runs/a.jsonl", save_path="sft", lora_rank=2, save_steps=1,
                   ckpt_path="steps", **TRAINING)  # fmt: skip
    assert trained["settings"]["resolved"]["optimizer"]["adam_betas"] == [0.9, 0.95]
    assert {entry["flag"] for entry in trained["inputs"] if "sha256" in entry} == {"pretrain", "dataset"}
    step = next((tmp_path / "steps").glob("checkpoint-*"))
    kept("merge_adapters", str(step), "merged")
    kept("sample_best_of_n", "runs/a.jsonl", "s.jsonl", "sft", best_of_n=4, max_tokens=8, data_fraction=0.4, device="cpu",
         quiet=True)  # fmt: skip
    ranked = kept("rank_best_of_n", "s.jsonl", "r.jsonl", agent, device="cpu", quiet=True)
    assert ranked["status"] == "finished"
    kept("credit score", "runs/a.jsonl", critic=agent, device="cpu", quiet=True)
    kept("export_credit", "runs/a.jsonl", "runs/a.credit.agent.jsonl", "rows.jsonl", tokenizer=agent)
    kept("generate_random_pairs_from_ranks", "r.jsonl", "steps.jsonl", num_pairs=2)
    kept("train_dpo", agent, "steps.jsonl", save_path="dpo", reference_cache="none", **TRAINING)
    kept("train_dpo", agent, "steps.jsonl", eval_only=True, metrics_path="numbers.jsonl",
         **TRAINING)  # fmt: skip
    kept("train_reward_model", agent, "steps.jsonl", save_path="critic", **TRAINING)
    kept("export_pairs", "steps.jsonl", "trl.jsonl", tokenizer=agent)
    kept("run_bc", "start", tasks="twenty-questions:ten", games=1, iterations=1, device="cpu", quiet=True)
    kept("run_archer", *ONLINE, config_name="archer_20q")
    assert without_record(tmp_path) == []


def test_tokens_of_agent_and_human_are_as_their_servers_count(tmp_path):
    """Both answer over HTTP; what the server saw of each is what the record says."""
    flags = {"num_tasks": 3, "max_steps": 4, "quiet": True}
    served = {"agent_model": "echo", "agent": "openai", "agent_api": "chat"}
    with start_server() as server:
        flags["env_base_url"] = server.base_url
        load("simulate_interactions")(
            "mini:test", "a.jsonl", **flags, **served, agent_base_url=server.base_url
        )
        load("simulate_interactions")("mini:test", "b.jsonl", **flags, agent_model="questioner")
    both, one = (json.loads((tmp_path / f"{name}.jsonl.run.json").read_text())["usage"] for name in "ab")
    assert set(both) == {"agent", "user"}
    assert set(one) == {"user"}
    (human,) = one["user"].values()
    rows = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    said = [turn for row in rows for turn in row["dialogue_history"][1:] if turn["role"] == "user"]
    assert human["replies"] == len(said)
    assert human["replies_without_usage"] == human["failed_requests"] == human["retries"] == 0
    assert human["prompt_tokens"] > human["completion_tokens"] >= len(said)


def test_what_is_refused_leaves_the_record_as_it_was(tmp_path):
    simulate, place = load("simulate_interactions"), tmp_path / "a.jsonl.run.json"
    flags = {"agent_model": "questioner", "env_model": "scripted", "num_tasks": 2, "quiet": True}
    simulate("mini:test", "a.jsonl", **flags)
    before = place.read_text()
    for refused in ({}, {"to_continue": True, "seed": 5}, {"to_continue": True, "overwrite": True}):
        with pytest.raises(UsageError):
            simulate("mini:test", "a.jsonl", **flags, **refused)
    assert place.read_text() == before
    simulate("mini:test", "a.jsonl", **flags | {"num_tasks": 3}, to_continue=True)
    simulate("mini:test", "a.jsonl", **flags, overwrite=True)
    last = json.loads(place.read_text())
    assert last["replaces"] == json.loads(before)["id"] != last["id"]
    assert last["settings"]["max_steps"] == 10  # what was not given is resolved


def test_the_stages_for_pages(tmp_path):
    kept = Kept(tmp_path)
    (tmp_path / "web").mkdir()
    rows = [{"llm_generated_idea": f"Idea {n}.", "text": f"<html><p>Page {n}</p></html>"} for n in range(4)]
    (tmp_path / "web/w.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    kept("prepare_websight", "tasks", "web/w.jsonl", num_rows=4, num_train=3, quiet=True)
    kept("filter_websites", "tasks/train.jsonl", "kept.jsonl", "pictures", quiet=True)
    html = {
        "task_type": "html",
        "env_model": "scripted",
        "max_steps": 3,
        "render_cache": "none",
        "quiet": True,
    }
    kept("simulate_interactions", "kept.jsonl", "a.jsonl", best_of_n=2, **html)
    kept("simulate_interactions", "kept.jsonl", "b.jsonl", agent_model="blank", best_of_n=2, **html)
    kept("evaluate_html", "a.jsonl", k=2, preference_path="p.jsonl", margin=0.001, render_cache="none",
         quiet=True)  # fmt: skip
    kept("evaluate_html", "b.jsonl", k=2, render_cache="none", quiet=True)
    kept("judge_html", "a.jsonl", "b.jsonl", judge="metrics")
    kept("picture_pairs", "p.jsonl", "a.jsonl", "shown.jsonl", render_cache="none")
    kept("visualize_design_dialogue_histories", "a.jsonl", export="a.html", render_cache="none")
    assert without_record(tmp_path) == ["w.jsonl"]


def test_demos_and_what_takes_long_begin_their_record(tmp_path, monkeypatch):
    kept = Kept(tmp_path)

    def stop(*_, **__):
        raise UsageError("that is all")

    monkeypatch.setattr("sweet_rl.pipelines.running.run_steps", stop)
    kept("demo", "demo", page_tasks=0, fails=UsageError)
    kept("demo_archer", "archer", fails=UsageError)
    assert kept("demo_reflect", "reflect", fails=UsageError)["error"] == "that is all"
    monkeypatch.setattr("sweet_rl.mini.embedded_agent.make_agent", stop)
    kept("make_embedded_agent", "agent", fails=UsageError)
