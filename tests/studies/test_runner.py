"""Recipes of the studies: commands, what waits for what, and the processes that they run in."""

import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from sweet_rl.chat import model_path
from sweet_rl.cli import load
from sweet_rl.cli.parse import read, values_of
from sweet_rl.errors import UsageError
from sweet_rl.pipelines.running import Records
from sweet_rl.pipelines.steps import in_rounds
from sweet_rl.runs.facts import changed_input, digest_of
from sweet_rl.studies.archer import recipe as archer
from sweet_rl.studies.demos import demo_archer, demo_reflect
from sweet_rl.studies.reflect import recipe as reflect
from sweet_rl.studies.sweet import recipe as mini_study
from sweet_rl.studies.sweet.recipe import OWN_STEPS, first_round, rejection, rounds, sweet, two_rounds
from sweet_rl.studies.sweet.results import METHODS
from sweet_rl.studies.sweet.settings import ALL_WAYS, EMBEDDED, SWEETS, begun_with


def pretrained(folder, study, monkeypatch, gib=0.0, jobs=2):
    """A study of a pretrained model on a machine whose GPU has so much memory."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: gib > 0)
    card = SimpleNamespace(name="card", total_memory=gib * 2**30)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda at: card)
    monkeypatch.setattr("sweet_rl.studies.sweet.settings.model_path", lambda name: name)
    return replace(study, ways=ALL_WAYS, **begun_with("smollm2", folder, jobs))


def test_a_pretrained_model_is_sized_for_what_torch_sees_and_says_so(tmp_path, study, monkeypatch, capsys):
    """A part of a card, without nvidia-smi: torch says how much memory it is."""
    monkeypatch.setenv("PATH", str(tmp_path))
    part, both = (pretrained(tmp_path, study, monkeypatch, gib=gib) for gib in (20, 0))
    assert (part.train_tasks, part.settings.training["max_tokens_per_batch"]) == (500, 4096)  # of 5 GiB
    assert part.settings.sampling["cache_gib"] == 1.25
    assert (both.train_tasks, both.settings.training["max_tokens_per_batch"]) == (100, 1024)
    first, second = capsys.readouterr().out.split("\n\n")[:2]
    assert "those for a GPU, card with 20 GiB: train_tasks 500, test_tasks 300," in first
    assert "those for two cores, as torch sees no GPU: train_tasks 100, test_tasks 150," in second


def kinds(folder, study, monkeypatch):
    return {
        "pretrained": rounds(pretrained(folder, study, monkeypatch, gib=80)),
        "sweet": rounds(replace(study, ways=ALL_WAYS, best_of=(2,), page_tasks=2)),
        "archer": archer.rounds(archer.OnlineStudy(folder, seeds=2)),
        "reflect": reflect.rounds(reflect.ReflectStudy(folder, seeds=2, worlds=tuple(reflect.METHODS))),
    }


@pytest.mark.parametrize("kind", ["pretrained", "sweet", "archer", "reflect"])
def test_every_command_of_a_study_is_one_that_a_person_can_type(kind, study, tmp_path, monkeypatch):
    calls = [one for chains in kinds(tmp_path, study, monkeypatch)[kind] for chain in chains for one in chain]
    for call in (each for each in calls if ":" not in each.run):
        words = [*call.words, *(f"--{name}={value}" for name, value in call.flags.items())]
        stage = load(call.run)
        values_of(stage, read(stage, words))
        assert call.command.startswith(f"sweet-rl {call.run} ")
    runs = {call.run for call in calls}
    own = {
        "pretrained": {"simulate_interactions", "train_sft", "train_dpo", "rank_best_of_n"},
        "sweet": {"simulate_interactions", "train_sft", "train_dpo", "rank_best_of_n", "evaluate_html"},
        "archer": {"simulate_interactions", "run_archer"},
        "reflect": {"reflect supervised_pretrain", "reflect rl_finetune", "reflect evaluate"},
    }
    assert own[kind] <= runs
    assert len({call.name for call in calls}) == len(calls)  # what a step made is found again by its name


@pytest.mark.parametrize(
    ("demo", "flags", "message"),
    [
        (demo_archer, {"seeds": 0}, "must be at least 1"),
        (demo_archer, {"iterations": 0}, "must be at least 1"),
        (demo_archer, {"skill": 1.5}, "--skill must be from 0 to 1, got 1.5"),
        (demo_reflect, {"seeds": 0}, "--seeds must be at least 1, got 0"),
        (demo_reflect, {"first_seed": -1}, "--first_seed must be at least 0, got -1"),
        (demo_reflect, {"iterations": 0}, "--iterations must be at least 1"),
        (demo_reflect, {"worlds": "taxi,chess"}, "--worlds must be of taxi, auto_explore"),
        (demo_reflect, {"worlds": ""}, "--worlds must be of taxi, auto_explore"),
    ],
)
def test_wrong_flags_are_refused_before_anything_is_made(tmp_path, demo, flags, message):
    with pytest.raises(UsageError, match=message):
        demo(str(tmp_path / "out"), **flags)
    assert not (tmp_path / "out").exists()


def test_what_is_special_about_each_way_of_sweet_rl(study):
    """The flags in which a way's commands differ from those of the headline."""
    study = replace(study, ways=ALL_WAYS)
    chains = {way.name: sweet(study, way) for way in SWEETS}

    def flags(way, run):
        (step,) = (step for step in chains[way] if step.run == run)
        words = {str(place): word for place, word in enumerate(step.words)}
        renamed = {k: str(v).replace(f"/{way}.", "/WAY.") for k, v in {**step.flags, **words}.items()}
        return {name: value for name, value in renamed.items() if not value.endswith(f"/{way}")}

    def differs(way, run):
        own, other = flags(way, run), flags("sweet", run)
        return {name: own.get(name) for name in own | other if own.get(name) != other.get(name)}

    score, draw, train = "rank_best_of_n", "generate_random_pairs_from_ranks", "train_dpo"
    assert flags("sweet", score) == {
        "advantage": "paper", "reference_model": "embedded", "to_continue": "True", "quiet": "True",
        "0": str(study.sampled), "1": str(study.path("WAY.ranked.jsonl")), "2": str(study.path("critic")),
    }  # fmt: skip
    assert flags("sweet", draw).items() >= {
        "num_pairs": "2", "draws": "best", "margin": "0.3", "min_score": "0.0", "hard_negatives": "1", "twins": "0.33",
        "twins_from": str(study.dialogues),
    }.items()  # fmt: skip
    released = {"advantage": None, "reference_model": None}
    scored = {"1": str(study.path("WAY.scored.jsonl"))}
    blind = {"2": str(study.path("critic_blind")), "no_use_ground_truth": "True"}
    assert differs("sweet_released", score) == released
    assert differs("sweet_blind", score) == released | blind
    assert differs("sweet_wrong", score) == scored | {"swap_test": "True"}
    assert differs("sweet_shuffled", score) == scored
    assert differs("sweet_untrained", score) == released | {"2": "embedded"}
    for way in ("released", "wrong", "shuffled", "untrained", "oracle"):
        assert differs(f"sweet_{way}", draw) == {}
    assert differs("sweet_blind", draw) == {"min_score": None}
    unguarded = {"hard_negatives": None, "twins": None, "twins_from": None}
    assert differs("sweet_halves", draw) == {"draws": "halves", "margin": None, "min_score": None}
    assert differs("sweet_unguarded", draw) == unguarded
    assert differs("sweet_blind", train) == {"nll_loss_coef": str(EMBEDDED.blind_policy["nll_loss_coef"])}
    assert all(differs(way.name, train) == {} for way in SWEETS if way.name != "sweet_blind")
    steps = (step for chain in first_round(study) for step in chain if step.name.startswith("critic"))
    trained = {step.name: step.flags["beta"] for step in steps}
    assert trained == {"critic": 100.0, "critic_blind": 10.0, "critic_outcomes": 100.0}
    own = {"sweet_wrong": "take_swapped", "sweet_shuffled": "shuffle_scores"}
    own |= {"sweet_oracle": "score_by_oracle"}
    for way, chain in chains.items():
        found = [step.run.rpartition(":")[2] for step in chain if step.run.startswith(OWN_STEPS)]
        assert found == ([own[way]] if way in own else [])


def test_two_rounds_have_as_many_dialogues_in_all_and_the_second_begins_where_the_first_ended(study):
    steps = two_rounds(replace(study, train_tasks=5, seed=3, candidates_of=2))
    tasks = [step.flags for step in steps if step.run == "generate_tasks" and "train" in step.name]
    played = [step.flags for step in steps if step.run == "simulate_interactions"]
    assert [(one["num_tasks"], one["seed"]) for one in tasks] == [(2, 3), (3, 1_000_003)]
    first, second, measured = ((one["agent_model"], one["repeats"], one["seed"]) for one in played)
    assert first == ("embedded", 4, 3)
    assert second == (str(study.path("first.sweet")), 4, 1_000_003)
    assert measured == (str(study.path("second.sweet")), 1, 3)
    sampled = [step.flags["data_fraction"] for step in steps if step.run == "sample_best_of_n"]
    assert sampled == [0.5, 0.5]  # two of four dialogues of each task
    pretrained = [step.flags["pretrain"] for step in steps if step.run == "train_dpo"]
    assert pretrained == ["embedded"] * 2 + [str(study.path("first.sweet"))] * 2


def test_rounds_begin_with_the_longest_and_rivals_learn_from_the_same_dialogues(study):
    all_rounds = rounds(replace(study, ways=ALL_WAYS, best_of=(2,), page_tasks=2))
    first = [[chain[0].name for chain in each] for each in all_rounds[2:4]]
    assert first[0] == ["sampled.jsonl", "critic", "critic_blind", "pairs_shuffled.jsonl", "dpo"]
    assert first[1][0] == "first.train.jsonl"
    assert set(ALL_WAYS) <= set(METHODS)  # each is measured
    (dpo, *_), (rft, *_) = mini_study.dialogue_dpo(study), rejection(study)
    assert dpo.flags["dataset"] == study.path("pairs_guarded.jsonl")
    assert (rft.flags["dataset"], rft.flags["min_reward"]) == (study.dialogues, 1.0)
    chosen = [chain[0].flags for chain in mini_study.second_round(replace(study, ways=(), best_of=(2,)))]
    assert [(str(one["critic"]), one["critic_sees"], one["agent_best_of_n"]) for one in chosen] == [
        (str(study.path("critic")), "solution", 2),
        (str(study.path("critic_blind")), "dialogue", 2),
        ("embedded", "solution", 2),
    ]
    assert {one["agent_model"] for one in chosen} == {"embedded"}


@pytest.mark.parametrize(
    ("gib", "jobs", "tokens", "cache"),
    [(0, 2, 1024, None), (140, 4, 32768, 8.75), (140, 1, 32768, 8.75), (24, 2, 4096, 1.5)],
)
def test_a_pretrained_model_imitates_first_and_what_is_computed_at_once_follows_from_memory(
    gib, jobs, tokens, cache, study, tmp_path, monkeypatch
):
    study = pretrained(tmp_path, study, monkeypatch, gib, jobs)
    steps = {step.name: step for chains in rounds(study) for chain in chains for step in chain}
    assert "gates.json" not in steps
    teacher, imitation = steps["taught.jsonl"], steps["warm_start"]
    assert (teacher.flags["agent_model"], teacher.flags["tokenizer"]) == ("expert", "smollm2")
    assert steps["teaching.jsonl"].flags["seed"] != steps["train.jsonl"].flags["seed"]
    assert (imitation.flags["pretrain"], imitation.flags["dataset"]) == (
        "smollm2",
        study.path("taught.jsonl"),
    )
    trained = [step for step in steps.values() if "save_path" in step.flags]
    assert {str(step.flags["pretrain"]) for step in trained} == {
        "smollm2",
        study.agent,
        str(study.path("first.sweet")),
    }
    assert {step.flags["max_tokens_per_batch"] for step in trained} == {tokens}
    assert steps["sampled.jsonl"].flags.get("cache_gib") == cache
    assert steps["critic_outcomes"].flags["dataset"] == study.path("pairs_shuffled.jsonl")
    assert steps["sweet_outcomes.ranked.jsonl"].words[2] == str(study.path("critic_outcomes"))
    assert steps["sweet_untrained.ranked.jsonl"].words[2] == study.agent
    bare = [
        step
        for chains in rounds(replace(study, unsafe_no_sandbox=True))
        for chain in chains
        for step in chain
    ]
    assert {step.flags.get("unsafe_no_sandbox") for step in bare if step.run == "evaluate_code"} == {True}


def test_another_port_of_the_human_is_no_other_setting_but_another_agent_is_another_input(study, tmp_path):
    """Marked as done under one address, a step is done under another; under another seed it is not."""
    step = next(step for step in in_rounds(rounds(study)) if step.run == "simulate_interactions")
    record = {"step": {"name": step.name, "flags": step.settings}, "inputs": [], "outputs": []}
    records = Records(tmp_path)
    records._last[step.name] = record | {"status": "finished"}
    assert "http://127.0.0.1:1/v1" in step.command  # what is printed is what can be typed
    moved = replace(step, flags=dict(step.flags) | {"env_base_url": "http://127.0.0.1:2/v1"}, needs=())
    assert records.look(moved).state == "done"
    assert records.look(replace(moved, flags=dict(moved.flags) | {"seed": 1})).why == "seed was 0, is 1"
    now = digest_of(Path(model_path("embedded")))
    assert not changed_input({"inputs": [{"flag": "agent", "source": "embedded", **now}]})
    then = {"flag": "agent", "source": "embedded", **now, "sha256": "0" * 64}
    assert changed_input({"inputs": [then]}).endswith("mini/agent has changed")


@pytest.mark.slow
def test_workers_end_with_the_study_that_wanted_them():
    code = (
        "import os, time\nfrom sweet_rl.pipelines import running\nif __name__ == '__main__':\n"
        "    with running.workers(1, threads=1, fresh=False) as pool:\n"
        "        print(pool.submit(os.getpid).result(), flush=True)\n        pool.submit(time.sleep, 60).result()\n"
    )
    study = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    worker = int(study.stdout.readline())
    study.kill()
    study.communicate()
    deadline = time.monotonic() + 20
    while psutil.pid_exists(worker) and psutil.Process(worker).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the worker goes on by itself"
        time.sleep(0.1)


@pytest.mark.parametrize("kind", ["pretrained", "sweet", "archer", "reflect"])
def test_a_step_waits_for_all_that_made_what_its_command_names(kind, study, monkeypatch):
    folder = study.path("x").parent
    all_rounds = kinds(folder, study, monkeypatch)[kind]
    number_of = {step.name: n for n, chains in enumerate(all_rounds) for chain in chains for step in chain}
    before, found = {}, 0
    for step in in_rounds(all_rounds, folder):
        waits = {*step.needs, *step.after}
        before[step.name] = waits.union(*(before[name] for name in waits))
        for name in number_of.keys() - {step.name}:
            if re.search(rf"{re.escape(str(folder / name))}(?![\w.-])", step.command):
                assert name in before[step.name], (step.name, name)
                found += 1
    assert found > 30


def test_a_study_waits_for_nothing_else(study):
    study = replace(study, folder=Path("demo"), agent="outputs/demo/critic", page_tasks=2)
    steps = {step.name: step for step in in_rounds(rounds(study), Path("demo"))}
    assert steps["sweet.ranked.jsonl"].after == (
        "sampled.jsonl",
        "critic",
    )  # the agent is none of its critics
    assert steps["critic"].after == ("pairs.jsonl",)  # which makes pairs_hidden.jsonl, too
    assert steps["rft"].after == ("offline.jsonl", "pairs.jsonl", "pairs_guarded.jsonl")  # graded in place
    assert steps["pages.blank.jsonl"].after == ()


@pytest.mark.parametrize("folder", [".", "it's", "my runs"])
def test_where_names_cannot_be_told_apart_a_round_waits_for_the_one_before_it(folder, study):
    all_rounds = rounds(replace(study, folder=Path(folder), page_tasks=2))
    assert in_rounds(all_rounds, Path(folder)) == in_rounds(all_rounds)
