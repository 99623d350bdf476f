"""The Reflect-RL study: its commands, what is read from its files, what its page and table say of claims."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sweet_rl.cli import load
from sweet_rl.errors import DataError
from sweet_rl.studies.reflect import worlds
from sweet_rl.studies.reflect.recipe import ReflectStudy, rounds
from sweet_rl.studies.reflect.results import CLAIMS, NAMES, TITLES, results
from sweet_rl.studies.reflect.worlds import EXPLORE, HOUSEHOLD, LONG, METHODS, MOVED, TAXI, WORLDS
from sweet_rl.studies.report.page import results_page
from sweet_rl.studies.runner import table
from sweet_rl.worlds import world_of
from tests.studies.samples import Reader


def calls_of(study):
    return [call for chains in rounds(study) for chain in chains for call in chain]


def method_of(world, key):
    return next(method for method in METHODS[world] if method.key == key)


def of_world(study, world, run):
    """A world's steps of a kind."""
    return [call for call in calls_of(study) if call.run == run and call.name.startswith(f"{world}-")]


# ---- commands


def learning(study, world, key):
    run = study.run(world, method_of(world, key), 0)
    return next(call for call in calls_of(study) if study.folder / call.name == run)


def test_a_comparison_differs_in_what_it_compares_and_in_nothing_else(tmp_path):
    study = ReflectStudy(tmp_path, seeds=1, worlds=WORLDS)
    reflecting = {
        *("reflect", "reflect_load_dir", "reflect_model_name"),
        *("reflect_max_new_tokens", "reflect_temperature"),
    }
    for world, key, differing in (
        (TAXI, "reflect_rl_flat", {"ckpt_path", "curriculum_index"}),
        (TAXI, "sft_rl", {"ckpt_path", "load_dir", *reflecting}),
        (MOVED, "sft_rl", {"ckpt_path", "load_dir", "learning_rate", *reflecting}),  # each has its own rate
        (TAXI, "rl", {"ckpt_path", "load_dir", *reflecting}),
        (EXPLORE, "reflect_rl_positive", {"ckpt_path", "load_dir", "reflect_load_dir"}),
    ):
        one, other = learning(study, world, "reflect_rl").flags, learning(study, world, key).flags
        assert {name for name in {*one, *other} if one.get(name) != other.get(name)} == differing
    flat = learning(study, TAXI, "reflect_rl_flat").flags
    assert (flat["taxi_curriculum"], flat["curriculum_index"]) == (True, 2)  # the whole task, alone


@pytest.mark.parametrize(("world", "hops"), [(EXPLORE, 1), (MOVED, 2)])
def test_repositories_that_are_measured_on_are_not_learned_from(tmp_path, monkeypatch, world, hops):
    """The demo's own split of its own questions: no repository is in two parts."""
    from sweet_rl.mini.repositories import write_repositories

    monkeypatch.chdir(tmp_path)
    study = ReflectStudy(Path(), worlds=(world,))
    split = next(call for call in calls_of(study) if call.run == "reflect split_data")
    write_repositories("made", num=10, hops=hops)
    lessons = Path(split.words[0])
    lessons.parent.mkdir()
    lessons.write_bytes(Path("made/made_tasks.json").read_bytes())
    load(split.run)(*split.words, **split.flags)
    files = [lessons.with_name(f"{name}.json") for name in ("train", "validate", "test")]
    assert study.tasks(world, 0, "test") == {"task_file": files[-1]}
    train, validate, test = ({task["root"] for task in json.loads(file.read_text())} for file in files)
    assert all((train, validate, test))
    assert not (train & test or train & validate or validate & test)


def test_policies_of_a_seed_are_measured_on_the_same_games_and_those_of_another_on_others(tmp_path):
    study = ReflectStudy(tmp_path, seeds=2, first_seed=7, test_games=100, worlds=WORLDS)
    for world in WORLDS:
        known = []
        for seed in (7, 8):
            calls = [call for call in of_world(study, world, "reflect evaluate") if f"-{seed}." in call.name]
            flags = [dict(call.flags, report="", swap_reflections="") for call in calls]
            assert len(flags) == len(METHODS[world])
            assert all(one == flags[0] for one in flags)
            known.append(flags[0])
        drawn = "seed" if world == TAXI else "task_file"  # the taxi's games are drawn by the seed
        assert known[0][drawn] != known[1][drawn]


def test_others_reflections_are_a_measurement_of_the_same_policy_after_it_has_learned(tmp_path):
    study = ReflectStudy(tmp_path, seeds=1, worlds=WORLDS)
    for world in WORLDS:
        run = study.run(world, method_of(world, "reflect_rl"), 0)
        (chain,) = (chain for chain in rounds(study)[-1] if study.folder / chain[0].name == run)
        learned, own, swapped = chain
        assert learned.run == "reflect rl_finetune"
        assert own.words == swapped.words
        report = study.report(world, method_of(world, "reflect_rl_swapped"), 0)
        assert swapped.flags == own.flags | {"report": report, "swap_reflections": True}


def test_every_world_is_measured_beside_a_ceiling_and_floors_on_the_same_texts(tmp_path):
    study = ReflectStudy(tmp_path, seeds=2, worlds=WORLDS)
    for world in WORLDS:
        named = {call.name: call.words[0] for call in of_world(study, world, "reflect evaluate")}
        assert named[f"{world}-planner-0.json"] == "agent:planner"
        floor = named[f"{world}-random-0.json"].removeprefix("agent:")
        assert floor in world_of(study.playing(world, 0)["env"]).agents
        assert named[f"{world}-linear-0.json"] == f"linear:{study.texts(world, 'sft', 0)}"
        texts, reflection = study.texts(world, "policy", 1), study.tuned_checkpoint(world, "reflection", 1)
        assert named[f"{world}-linear_reflect-1.json"] == f"linear:{texts}+{reflection}"


@pytest.mark.parametrize("world", [TAXI, HOUSEHOLD])
def test_where_a_fifth_of_the_moves_is_random_the_teachers_are_a_row_of_their_own(tmp_path, world):
    """Its thoughts name the best action where another was taken; fine-tuning on these actions is shown, too."""
    calls = {call.name: call for call in calls_of(ReflectStudy(tmp_path, worlds=(world,)))}
    taken, best = calls[f"{world}_texts-0"].flags, calls[f"{world}_best-0"].flags
    assert best == taken | {"label": "best", "output": tmp_path / f"{world}_best-0"}
    one, best = calls[f"{world}-sft-0"].flags, calls[f"{world}-best-0"].flags
    assert {name for name in one if one[name] != best[name]} == {"task_file", "ckpt_path"}
    assert best["task_file"] == tmp_path / f"{world}_best-0" / "sft.jsonl"


def test_ablations_are_asked_for_and_the_longer_fine_tuning_has_the_updates_of_two_models(tmp_path):
    every, main = (
        {call.name for call in calls_of(ReflectStudy(tmp_path, worlds=WORLDS, methods=methods))}
        for methods in (METHODS, worlds.MAIN_METHODS)
    )
    left_out = every - main
    assert all(any(part in name for part in ("positive", "flat", "sft_long")) for name in left_out)
    assert {name.partition("-")[0] for name in left_out} == {*WORLDS}
    assert {"reflect_rl", "sft_rl", "reflect_rl_swapped"} <= {
        method.key for method in worlds.MAIN_METHODS[TAXI]
    }
    for study in (ReflectStudy(tmp_path), ReflectStudy(tmp_path, sft_updates=7)):
        for world in WORLDS:
            sft, long, *two = (study.tuning(world, kind) for kind in ("sft", LONG, "policy", "reflection"))
            assert long == sft._replace(updates=sum(each.updates for each in two))
            assert study.texts(world, LONG, 0) == study.texts(world, "sft", 0)
            of_method = {method.key: study.online(world, method) for method in METHODS[world]}
            if world != HOUSEHOLD:  # where it would take too long
                assert of_method["sft_long_rl"] == of_method["sft_rl"]


def test_all_policies_of_a_seed_begin_with_one_base_and_a_reflection_model_may_copy(tmp_path):
    study = ReflectStudy(tmp_path, worlds=WORLDS)
    for world in WORLDS:
        base, reader = study.base(world, 0), tmp_path / f"{world}-reader-0"
        copies = world in {MOVED, HOUSEHOLD}
        made = of_world(study, world, "sweet_rl.studies.reflect.recipe:make")
        wanted = {base: False} | ({reader: True} if copies else {})
        assert {Path(call.words[0]): call.flags["copies"] for call in made} == wanted
        reflecting = reader if copies else base
        for call in of_world(study, world, "reflect supervised_pretrain"):
            assert call.flags["model_name"] == (reflecting if "reflect" in call.flags else base)
        for call in of_world(study, world, "reflect rl_finetune"):
            assert call.flags["model_name"] == base
            assert call.flags.get("reflect_model_name", reflecting) == reflecting


# ---- what is read


SUCCESS = {"sft": 0.3, "rl": 0.0, "reflect_sft": 0.4, "reflect_rl": 0.6}
"""Of the first seed; a second one lies a tenth higher. What is not here gets 0.5."""


@pytest.fixture
def study(tmp_path):
    """Two seeds with reports and logs, as evaluate and rl_finetune write them."""
    study = ReflectStudy(tmp_path, seeds=2, iterations=4, worlds=WORLDS)
    played = (32, 30, 32, 32)  # a pass over the tasks ended with the second iteration
    rows = [{"iter": number, "succ": number / 4, "log": [{}] * played[number]} for number in range(4)]
    for world, method, seed in ((w, m, seed) for w in WORLDS for m in METHODS[w] for seed in range(2)):
        write_report(study, world, method, seed, SUCCESS.get(method.key, 0.5) + 0.1 * seed)
        if method.online and not method.policy_of:
            logs = study.checkpoint(world, method, seed)
            logs.mkdir(parents=True)
            (logs / "logs.json").write_text(json.dumps(rows))
            levels = {"pickup": 0, "full": 2} if world == TAXI else {f"seed {seed}": 0, "other": 1}
            state = {"levels": {"all": 0} if world == HOUSEHOLD else levels}
            (logs / "trainer_state.json").write_text(json.dumps(state))
    return study


def write_report(study, world, method, seed, success, failed=0):
    # Of AutoExplore's two levels the second has three times the episodes.
    levels = [("pickup", 0.9, 20), ("full", success, 20)]
    if world != TAXI:
        levels = [("level 0", success + 0.3, 10), ("level 1", success - 0.1, 30)]
    if world == HOUSEHOLD:  # each seed's households, by their numbers
        levels = [(f"alfworld:FAMILY:test:{seed}", success, 40)]
    rows = [
        {"level": name, "success": share, "episodes": count, "failed": failed, "cost": 1.0}
        for name, share, count in levels
    ]
    study.report(world, method, seed).write_text(json.dumps({"checkpoints": [{"levels": rows}]}))


def test_results_say_what_the_files_say(study):
    taxi, explore, _, household = results(study, {}).comparisons
    run = taxi.method("reflect_rl").runs[1]
    levels = {name: run.measures[name].mean for name in ("pickup", "full")}
    assert run.measures["success"].mean == pytest.approx(0.7)  # the last level is the whole task
    assert levels == pytest.approx({"pickup": 0.9, "full": 0.7})
    # An iteration is played by what was learned before it, and stands at the episodes of that.
    assert run.curves["success"] == ((0.0, 0.0), (32.0, 0.25), (62.0, 0.5), (94.0, 0.75))
    assert taxi.method("sft").runs[0].curves == {}
    assert taxi.curves[0].changes == ((0.0, "pickup"), (62.0, "full"))
    assert explore.curves[0].changes == ()  # its seeds have other levels
    assert household.curves[0].changes == ()  # one level alone
    # (10 * 0.9 + 30 * 0.5) / 40: every question counts alike.
    assert explore.method("reflect_rl").runs[0].measures["success"].mean == pytest.approx(0.6)
    bounds = [method.name for method in household.methods if method.bound]
    assert bounds == ["seeker", "planner", "random", "linear", "linear_reflect", "sft_best"]
    assert not taxi.method("sft_rl").bound
    every = [claim for part in results(study, {}).comparisons for claim in part.claims]
    assert {claim.among for claim in every} == {len(every)}  # corrected for all claims of the page
    measured = {part.name: [measure.name for measure in part.measures] for part in (explore, household)}
    assert measured == {explore.name: ["success", "level 0", "level 1"], household.name: ["success"]}


def test_an_episode_that_failed_is_no_number(study):
    write_report(study, TAXI, method_of(TAXI, "sft"), 0, 0.5, failed=1)
    with pytest.raises(DataError, match="must be played to the end"):
        results(study, {})


def test_a_claim_is_made_only_where_both_of_its_methods_are(study):
    taxi, explore, moved, household = (
        {claim.worse for claim in part.claims} for part in results(study, {}).comparisons
    )
    assert moved == explore
    always = {"sft", "rl", "sft_rl", "sft_long", "sft_long_rl", "reflect_sft", "reflect_rl_swapped"}
    assert household == {*always - {"sft_long_rl"}, "sft_best"}
    assert taxi == {*always, "reflect_rl_flat", "sft_best"}
    assert explore == {*always, "reflect_rl_positive"}
    assert set(TITLES) == set(WORLDS)
    assert set(NAMES) == {method.key for world in WORLDS for method in METHODS[world]}
    assert {key for _, *keys in CLAIMS for key in keys} <= set(NAMES)


@pytest.mark.slow
def test_page_and_table_take_the_results(study):
    study = replace(study, worlds=(TAXI, HOUSEHOLD))
    found = results(study, {})
    page = results_page(found)
    text = Reader(page).text
    assert "DangerousTaxi: success against episodes played to learn from" in text
    assert "DangerousTaxi : Reflect-RL reaches 65.0 % success" in text.replace(":", " :").replace("  ", " ")
    claims = sum(len(part.claims) for part in found.comparisons)
    assert f"for all {claims} claims of this page to be right together" in text
    assert "Planner 55.0" in page  # a line across the curves
    assert page.count(">pickup</text>") == 2  # a line where the level begins, wide and narrow
    assert text.count("From each upright line on") == 1
    assert "Reflect-RL beats fine-tuning alone: +30.0 points: no interval" in table(found)
