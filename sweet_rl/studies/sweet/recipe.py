"""Chains of stages of the mini study: SWEET-RL, its ablations and rivals, all from the same dialogues."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

from sweet_rl import tracking
from sweet_rl.chat import EMBEDDED, model_path
from sweet_rl.interface.results import pairs
from sweet_rl.mini.backend import extras
from sweet_rl.pipelines.steps import Step
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.preferences.ranking import SWAPPED
from sweet_rl.records import load_trajectories, read_rows, replace_file, replace_rows
from sweet_rl.studies.results import texts_of
from sweet_rl.studies.runner import Chain, call
from sweet_rl.studies.sweet import settings
from sweet_rl.studies.sweet.settings import Flags, Study, Sweet
from sweet_rl.types import Json

OWN_STEPS = __name__
"""Where steps are that are no stages: `check_agent`, and below it credit that is wrong on purpose or right by an oracle."""

DESIGNERS: Final[Mapping[str, tuple[str, str]]] = texts_of(__package__)["designers"]
_RESUMED = {"to_continue": True, "quiet": True}


def rounds(study: Study) -> Sequence[Sequence[Chain]]:
    """All chains; those of a round may need what earlier rounds made. The longest come first."""
    bounds = tuple(step for name in settings.LINES for step in _measure(study, name, name))
    return (
        [beginning(study), _tasks(study)],
        [_offline(study), _measure(study, "warm_start", study.agent), bounds],
        first_round(study),
        [*second_round(study), rejection(study), *page_chains(study)],
        [_looked_at(study, "warm_start", study.agent), _looked_at(study, "sweet", str(study.path("sweet")))],
    )


def beginning(study: Study) -> Chain:
    """The agent that all methods begin with: measured, or a pretrained model that imitates the scripted teacher."""
    if not study.pretrained:
        figures = study.path("gates.json")
        return (call(f"{OWN_STEPS}:check_agent", figures, (study.agent, str(figures))),)
    tasks, taught = study.path("teaching.jsonl"), study.path("taught.jsonl")
    flags = {"pretrain": study.pretrained, **study.settings.imitation}
    return (
        _generate(study, tasks, "train", study.demonstrations, study.seed + settings.OF_DEMONSTRATIONS),
        _simulate(study, "expert", tasks, taught, 1, {"tokenizer": study.pretrained}),
        _train(study, "train_sft", "warm_start", taught, flags),
    )


def data(study: Study) -> Chain:
    """The tasks; the offline dialogues of the agent, graded, and the pairs of whole dialogues with their hard negatives."""
    return *_tasks(study), *_offline(study)


def _tasks(study: Study) -> Chain:
    splits = {"train": ("train", study.train_tasks), "test": (study.test_split, study.test_tasks)}
    return tuple(
        _generate(study, study.path(f"{name}.jsonl"), split, number, study.seed)
        for name, (split, number) in splits.items()
    )


def _generate(study: Study, tasks: Path, split: str, number: int, seed: int) -> Step:
    flags = {"source": f"mini:{study.world}:{split}", "num_tasks": number, "seed": seed, "overwrite": True}
    return call("generate_tasks", tasks, (str(tasks),), flags)


def _offline(study: Study) -> Chain:
    pairs, guarded = study.path("pairs.jsonl"), study.path("pairs_guarded.jsonl")
    dialogues = (str(study.dialogues),)
    grade = {"k": study.repeats, "overwrite": True, **study.grading}
    hidden = {"preference_path": pairs, "ground_truth_preference_path": study.path("pairs_hidden.jsonl")}
    guards = {"hard_negatives": settings.GUARDS["hard_negatives"], "preference_path": guarded}
    return (
        _simulate(study, study.agent, study.path("train.jsonl"), study.dialogues, study.repeats),
        call("evaluate_code", pairs, dialogues, grade | hidden),
        call("evaluate_code", guarded, dialogues, grade | guards),
    )


def first_round(study: Study) -> list[Chain]:
    blind = study.best_of or "sweet_blind" in study.ways
    return [
        candidates(study),
        critic(study, "critic", hidden=True),
        *([critic(study, "critic_blind", study.settings.blind_critic, hidden=False)] if blind else []),
        *([critic(study, settings.DECEIVED, hidden=True)] if "sweet_outcomes" in study.ways else []),
        dialogue_dpo(study),
    ]


def second_round(study: Study) -> list[Chain]:
    ways = sorted(
        (way for way in settings.SWEETS if way.name in study.ways), key=lambda way: way.given != "wrong"
    )
    chains = [two_rounds(study)] if settings.TWO_ROUNDS in study.ways else []
    chains += [sweet(study, way) for way in ways]
    for turns, (critic, sees) in product(study.best_of, settings.CHOOSERS.items()):
        flags = {"agent_best_of_n": turns, "critic": study.critic(critic), "critic_sees": sees}
        chains.append(_measure(study, settings.chosen_by(critic, turns), study.agent, flags))
    return chains


def two_rounds(study: Study) -> Chain:
    """SWEET-RL twice with half of the tasks each; the second round begins with the policy of the first."""
    half = study.train_tasks // 2
    first = replace(study, train_tasks=half, prefix=f"{study.prefix}first.")
    second = replace(
        study,
        train_tasks=study.train_tasks - half,
        seed=study.seed + settings.SECOND_ROUND,
        prefix=f"{study.prefix}second.",
        agent=str(first.path("sweet")),
    )
    learned: list[Step] = []
    for once in (first, second):
        learned += [*data(once), *critic(once, "critic", hidden=True), *candidates(once)]
        learned += _learned(once, settings.SWEETS[0])
    return *learned, *_measure(study, settings.TWO_ROUNDS, str(second.path("sweet")))


def _looked_at(study: Study, name: str, model: str) -> Chain:
    """Some test dialogues of the agent, with the critic's view of every turn."""
    sampled, ranked = f"{name}.seen.sampled.jsonl", study.path(f"{name}.seen.jsonl")
    words = (str(study.path(sampled)), str(ranked), str(study.path("critic")))
    flags = {"advantage": "paper", "reference_model": study.agent, **_RESUMED, **study.settings.ranking}
    some = _sample(study, model, study.measured(name), sampled, min(1.0, 24 / study.test_tasks))
    return some, call("rank_best_of_n", ranked, words, flags)


def _simulate(
    study: Study, model: str, tasks: Path, output: Path, repeats: int, flags: Flags | None = None
) -> Step:
    given: dict[str, Any] = {"agent_model": model, "agent_prompt_path": "llm_agent_mini_prompt"}
    given |= {"env_model": "scripted", "env_base_url": study.human, "repeats": repeats}
    given |= {
        "max_turns": extras.MAX_TURNS,
        "batch_size": 256,
        **({} if model in settings.LINES else study.settings.sampling),
    }
    given |= {"seed": study.seed, **_RESUMED, **(flags or {})}
    return call("simulate_interactions", output, (str(tasks), str(output)), given)


def _measure(study: Study, name: str, model: str | None = None, flags: Flags | None = None) -> Chain:
    """The agent on the test tasks, graded; the model is the one of that name if no other is given."""
    output = study.measured(name)
    return (
        _simulate(study, model or str(study.path(name)), study.path("test.jsonl"), output, 1, flags),
        call("evaluate_code", study.path(f"{name}.test.report.json"), (str(output),), study.grading),
    )


def _train(study: Study, stage: str, name: str, dataset: Path, flags: Flags, **first: Any) -> Step:
    output = study.path(name)
    given = {"pretrain": study.agent, "dataset": dataset, "ckpt_path": f"{output}.checkpoints", **first}
    given |= {"save_path": output, "seed": study.seed, "eval_fraction": 0, "quiet": True}
    return call(stage, output, flags={**given, **study.settings.training, **flags})


def critic(study: Study, name: str, flags: Flags | None = None, *, hidden: bool) -> Chain:
    """The critic: DPO on pairs of whole dialogues, each after its hidden solution if `hidden`."""
    flags = {**(flags or study.settings.critic), "mean_log_prob": "trajectory"}
    if name == settings.DECEIVED:
        dealt = study.path("pairs_shuffled.jsonl")
        first = call(f"{OWN_STEPS}:shuffle_outcomes", dealt, (str(study.dialogues), str(dealt)))
        return first, _train(study, "train_dpo", name, dealt, flags)
    pairs = study.path("pairs_hidden.jsonl" if hidden else "pairs.jsonl")
    return (_train(study, "train_dpo", name, pairs, flags),)


def candidates(study: Study) -> Chain:
    fraction = study.candidates_of / study.repeats
    return (_sample(study, study.agent, study.dialogues, "sampled.jsonl", fraction),)


def dialogue_dpo(study: Study, name: str = "dpo", flags: Flags | None = None) -> Chain:
    """Multi-turn DPO on pairs of whole dialogues, with their hard negatives."""
    pairs = study.path("pairs_guarded.jsonl")
    trained = _train(study, "train_dpo", name, pairs, flags or study.settings.dialogue_dpo)
    return trained, *_measure(study, name)


def rejection(study: Study, name: str = "rft", flags: Flags | None = None) -> Chain:
    flags = flags or study.settings.rejection
    trained = _train(study, "train_sft", name, study.dialogues, flags, min_reward=1.0)
    return trained, *_measure(study, name)


def _sample(study: Study, model: str, dialogues: Path, name: str, fraction: float) -> Step:
    output, drawn = study.path(name), {"best_of_n": study.candidates, "data_fraction": fraction}
    flags = {**drawn, **study.settings.sampling, "seed": study.seed, **_RESUMED}
    return call("sample_best_of_n", output, (str(dialogues), str(output), model), flags)


def sweet(study: Study, way: Sweet) -> Chain:
    """Ranks by the critic, pairs of single turns, the policy that learns from them."""
    return *_learned(study, way), *_measure(study, way.name)


def _learned(study: Study, way: Sweet) -> Chain:
    ranked, pairs, sampled = study.ranked(way.name), study.pairs(way.name), study.sampled
    change = "take_swapped" if way.given == "wrong" else "shuffle_scores" if way.shuffled else ""
    scored = study.path(f"{way.name}.scored.jsonl") if change else ranked
    own, blind = study.settings, way.given == "none"
    rank: dict[str, Any] = {**_RESUMED, **own.ranking}
    if way.advantage == "paper":
        rank |= {"advantage": "paper", "reference_model": study.agent}
    if blind:
        rank["no_use_ground_truth"] = True
    if way.given == "wrong":
        rank["swap_test"] = True
    scores = call("rank_best_of_n", scored, (str(sampled), str(scored), str(study.critic(way.critic))), rank)
    if way.critic == settings.ORACLE:
        scores = call(f"{OWN_STEPS}:score_by_oracle", ranked, (str(sampled), str(ranked)))
    changed = (call(f"{OWN_STEPS}:{change}", ranked, (str(scored), str(ranked))),) if change else ()
    draw: dict[str, Any] = {"num_pairs": study.pairs_per_turn, "seed": study.seed, "overwrite": True}
    draw |= {"draws": way.draws, "oracle_of": "code"}
    if way.draws != "halves":
        draw |= way.pairs or (own.blind_pairs if blind else own.pairs)
    if way.guarded:
        draw |= settings.GUARDS | {"twins_from": study.dialogues}
    return (
        scores,
        *changed,
        call("generate_random_pairs_from_ranks", pairs, (str(ranked), str(pairs)), draw),
        _train(
            study, "train_dpo", way.name, pairs, way.policy or (own.blind_policy if blind else own.policy)
        ),
    )


# ---- designers without a model, on a few pages


def why_no_pages(study: Study) -> str | None:
    """What this machine lacks to render pages, in words that name the repair; None where it lacks nothing."""
    from sweet_rl.browsers import open_renderer
    from sweet_rl.browsers.page import RenderFlags
    from sweet_rl.errors import UsageError, missing_package

    try:
        open_renderer(RenderFlags(render_cache=str(study.path("pages.rendered"))).rendering())
        for package, distribution in (("PIL", "Pillow"), ("numpy", "numpy")):
            try:
                __import__(package)
            except ImportError:
                raise missing_package(distribution, "pages", needed_for="Grading pages") from None
    except UsageError as error:
        return str(error)
    return None


def page_chains(study: Study) -> list[Chain]:
    """The dialogues of each designer, graded; the one that takes longest comes first.

    All render the same targets, and every draft is graded later: each page is rendered once.
    """
    rendering = {"browsers": 1, "render_cache": study.path("pages.rendered"), "quiet": True}
    chains: list[Chain] = []
    for name in sorted(DESIGNERS, key=lambda name: name != "improver") if study.page_tasks else ():
        output, report = study.path(f"pages.{name}.jsonl"), study.path(f"pages.{name}.report.json")
        playing: dict[str, Any] = {"task_type": "html", "agent_model": name, "env_model": "scripted"}
        playing |= {"num_tasks": study.page_tasks, "seed": study.seed, "to_continue": True} | rendering
        played = call("simulate_interactions", output, ("mini-web:test", str(output)), playing)
        chains.append((played, call("evaluate_html", report, (str(output),), rendering)))
    return chains


# ---- the steps that are no stages


def check_agent(agent: str, output: str) -> None:
    """Refuse an agent that cannot show what the study is about; the packaged one has its figures with it."""
    tracking.reads("agent", agent)
    if agent == EMBEDDED:
        figures = json.loads((Path(model_path(agent)) / "figures.json").read_text())
    else:
        from sweet_rl.mini.backend.pretraining import TEXTS
        from sweet_rl.mini.embedded_agent import check_gates

        figures = {figure.name: figure.value for figure in check_gates(agent, TEXTS)}
    tracking.writes(output)
    replace_file(Path(output), [f"{json.dumps(figures, indent=1)}\n".encode()])


def take_swapped(scored: str, output: str) -> None:
    """Put the scores with another task's solution, of `rank_best_of_n --swap_test`, in place of the right ones."""
    _write_scores(output, [(row, row.row[SWAPPED]) for row in _turns(scored)])


def shuffle_outcomes(dialogues: str, output: str) -> None:
    """Deal the rewards of every task's dialogues among them by chance, and write the pairs that the critic then gets."""
    tracking.reads("source", dialogues)
    played, rewards = load_trajectories(dialogues), defaultdict[str, list[float | None]](list)
    for each in played:
        rewards[each.task.task_id].append(each.reward)
    for task_id, own in rewards.items():
        Random(task_id).shuffle(own)
    dealt = [replace(each, reward=rewards[each.task.task_id].pop()) for each in played]
    tracking.writes(output)
    replace_rows(output, pairs(dealt, with_ground_truth=True))


def shuffle_scores(scored: str, output: str) -> None:
    """Give the scores of every turn to its candidates by chance, drawn from the turn's name; equal texts get the same."""
    shuffled = []
    for row in _turns(scored):
        score_of = dict(zip((candidate.text for candidate in row.candidates), row.scores or (), strict=True))
        others = list(score_of.values())
        Random(str(row.key)).shuffle(others)
        given = dict(zip(score_of, others, strict=True))
        shuffled.append((row, [given[candidate.text] for candidate in row.candidates]))
    _write_scores(output, shuffled)


def score_by_oracle(source: str, output: str) -> None:
    """Score every candidate by the oracle of good turns: 1 for a good one, 0 for another."""
    judged = []
    for row in _turns(source):
        good = [
            extras.judge(row.ground_truth, row.before, candidate.text).good for candidate in row.candidates
        ]
        judged.append((row, list(map(float, good))))
    _write_scores(output, judged)


def _turns(path: str) -> list[Candidates]:
    tracking.reads("source", path)
    return candidates_from_rows(list(read_rows(path)), path=path)


def _write_scores(path: str, scored: Sequence[tuple[Candidates, Json]]) -> None:
    tracking.writes(path)
    replace_rows(path, [dict[str, Json](row.row) | {"judge_result": scores} for row, scores in scored])
