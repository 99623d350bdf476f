"""Chains of stages of the mini study: SWEET-RL, its ablations and rivals, all from the same dialogues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweet_rl.mini.backend import extras
from sweet_rl.pipelines.steps import Step
from sweet_rl.studies.outcome import Chain, Flags, call
from sweet_rl.studies.sweet.pages import page_chains
from sweet_rl.studies.sweet.settings import (
    BLIND_CRITIC,
    CHOOSERS,
    CRITIC,
    DIALOGUE_DPO,
    GUARDS,
    LINES,
    ORACLE,
    REJECTION,
    SECOND_ROUND,
    SWEETS,
    TRAIN,
    TWO_ROUNDS,
    Study,
    Sweet,
    chosen_by,
)

OWN_STEPS = "sweet_rl.studies.sweet.steps"
"""Steps of the study that are no stages."""

_SAMPLING = {"max_tokens": 48, "max_batch": 256}
_RESUMED = {"to_continue": True, "quiet": True}


def rounds(study: Study) -> Sequence[Sequence[Chain]]:
    """All chains; those of a round may need what the rounds before it made, and wait for nothing else.

    With two processes neither waits long: the longest begin as soon as they can, and what needs nothing fills
    the gaps.
    """
    before: list[Chain] = [
        _measure(study, "warm_start", study.agent),
        tuple(step for name in LINES for step in _measure(study, name, name)),
    ]
    seen: list[Chain] = [
        _looked_at(study, name, model)
        for name, model in (("warm_start", study.agent), ("sweet", str(study.path("sweet"))))
    ]
    return (
        [(*gates(study), *_tasks(study))],
        [_offline(study), *before],
        first_round(study),
        [*second_round(study), rejection(study), *page_chains(study)],
        seen,
    )


def gates(study: Study) -> Chain:
    """Whether the agent can show what the study is about."""
    figures = study.path("gates.json")
    return (call(f"{OWN_STEPS}:check_agent", figures, (study.agent, str(figures))),)


def data(study: Study) -> Chain:
    """The tasks; the offline dialogues of the agent, graded, and the pairs of whole dialogues with their hard negatives."""
    return *_tasks(study), *_offline(study)


def _tasks(study: Study) -> Chain:
    return tuple(
        call(
            "generate_tasks",
            (tasks := study.path(f"{name}.jsonl")),
            (str(tasks),),
            {
                "source": f"mini:{study.world}:{split}",
                "num_tasks": number,
                "seed": study.seed,
                "overwrite": True,
            },
        )
        for name, split, number in (
            ("train", "train", study.train_tasks),
            ("test", study.test_split, study.test_tasks),
        )
    )


def _offline(study: Study) -> Chain:
    pairs, guarded = study.path("pairs.jsonl"), study.path("pairs_guarded.jsonl")
    dialogues = (str(study.dialogues),)
    grade = {"k": study.repeats, "overwrite": True, "quiet": True}
    hidden = {"preference_path": pairs, "ground_truth_preference_path": study.path("pairs_hidden.jsonl")}
    guards = {"hard_negatives": GUARDS["hard_negatives"], "preference_path": guarded}
    return (
        _simulate(study, study.agent, study.path("train.jsonl"), study.dialogues, study.repeats),
        call("evaluate_code", pairs, dialogues, grade | hidden),
        call("evaluate_code", guarded, dialogues, grade | guards),
    )


def first_round(study: Study) -> list[Chain]:
    """What needs the offline data only: candidates and critics, which SWEET-RL needs, and its longest rival."""
    blind = study.best_of or any(way.critic == "critic_blind" for way in ways(study))
    return [
        candidates(study),
        critic(study, "critic", hidden=True),
        *([critic(study, "critic_blind", BLIND_CRITIC, hidden=False)] if blind else []),
        dialogue_dpo(study),
    ]


def second_round(study: Study) -> list[Chain]:
    """The policies of each way of SWEET-RL; the longest first."""
    return [
        *([two_rounds(study)] if TWO_ROUNDS in study.ways else []),
        *(sweet(study, way) for way in sorted(ways(study), key=lambda way: way.given != "wrong")),
        *(
            _measure(
                study,
                chosen_by(critic, turns),
                study.agent,
                {"agent_best_of_n": turns, "critic": study.critic(critic), "critic_sees": sees},
            )
            for turns in study.best_of
            for critic, sees in CHOOSERS.items()
        ),
    ]


def two_rounds(study: Study) -> Chain:
    """SWEET-RL twice with half of the tasks each; the second round begins with the policy of the first."""
    half = study.train_tasks // 2
    first = replace(study, train_tasks=half, prefix=f"{study.prefix}first.")
    second = replace(
        study,
        train_tasks=study.train_tasks - half,
        seed=study.seed + SECOND_ROUND,
        prefix=f"{study.prefix}second.",
        agent=str(first.path("sweet")),
    )
    learned: list[Step] = []
    for once in (first, second):
        learned += [*data(once), *critic(once, "critic", hidden=True), *candidates(once)]
        learned += _learned(once, SWEETS[0])
    return *learned, *_measure(study, TWO_ROUNDS, str(second.path("sweet")))


def ways(study: Study) -> list[Sweet]:
    """Those that the study runs."""
    return [way for way in SWEETS if way.name in study.ways]


def _looked_at(study: Study, name: str, model: str) -> Chain:
    """Some test dialogues of the agent, with the critic's view of every turn."""
    sampled, ranked = f"{name}.seen.sampled.jsonl", study.path(f"{name}.seen.jsonl")
    return (
        _sample(study, model, study.measured(name), sampled, min(1.0, 24 / study.test_tasks)),
        call(
            "rank_best_of_n",
            ranked,
            (str(study.path(sampled)), str(ranked), str(study.path("critic"))),
            {"advantage": "paper", "reference_model": study.agent, **_RESUMED},
        ),
    )


def _simulate(
    study: Study, model: str, tasks: Path, output: Path, repeats: int, flags: Flags | None = None
) -> Step:
    return call(
        "simulate_interactions",
        output,
        (str(tasks), str(output)),
        {
            "agent_model": model,
            "agent_prompt_path": "llm_agent_mini_prompt",
            "env_model": "scripted",
            "env_base_url": study.human,
            "repeats": repeats,
            "max_turns": extras.MAX_TURNS,
            "batch_size": 256,
            **({} if model in LINES else _SAMPLING),
            "seed": study.seed,
            **_RESUMED,
            **(flags or {}),
        },
    )


def _measure(study: Study, name: str, model: str | None = None, flags: Flags | None = None) -> Chain:
    """The agent on the test tasks, graded; the model is the one of that name if no other is given."""
    output = study.measured(name)
    return (
        _simulate(study, model or str(study.path(name)), study.path("test.jsonl"), output, 1, flags),
        call("evaluate_code", study.path(f"{name}.test.report.json"), (str(output),), {"quiet": True}),
    )


def _train(study: Study, stage: str, name: str, dataset: Path, flags: Flags, **first: Any) -> Step:
    flags = {
        "pretrain": study.agent,
        "dataset": dataset,
        **first,
        "save_path": study.path(name),
        "seed": study.seed,
        **TRAIN,
        **flags,
    }
    return call(stage, study.path(name), flags=flags)


def critic(study: Study, name: str, settings: Flags = CRITIC, *, hidden: bool) -> Chain:
    """The critic: DPO on pairs of whole dialogues, each after its hidden solution if `hidden`."""
    pairs = study.path("pairs_hidden.jsonl" if hidden else "pairs.jsonl")
    return (_train(study, "train_dpo", name, pairs, {**settings, "mean_log_prob": "trajectory"}),)


def candidates(study: Study) -> Chain:
    """New candidates for the turns of the dialogues, or of some."""
    fraction = study.candidates_of / study.repeats
    return (_sample(study, study.agent, study.dialogues, "sampled.jsonl", fraction),)


def dialogue_dpo(
    study: Study, name: str = "dpo", settings: Flags = DIALOGUE_DPO, *, guarded: bool = True
) -> Chain:
    """Multi-turn DPO on pairs of whole dialogues; `guarded` with their hard negatives."""
    pairs = study.path("pairs_guarded.jsonl" if guarded else "pairs.jsonl")
    return _train(study, "train_dpo", name, pairs, settings), *_measure(study, name)


def rejection(study: Study, name: str = "rft", settings: Flags = REJECTION) -> Chain:
    """Fine-tuning on the successful dialogues."""
    trained = _train(study, "train_sft", name, study.dialogues, settings, min_reward=1.0)
    return trained, *_measure(study, name)


def _sample(study: Study, model: str, dialogues: Path, name: str, fraction: float) -> Step:
    flags = {"best_of_n": study.candidates, "data_fraction": fraction}
    flags |= {**_SAMPLING, "seed": study.seed, **_RESUMED}
    output = study.path(name)
    return call("sample_best_of_n", output, (str(dialogues), str(output), model), flags)


def sweet(study: Study, way: Sweet) -> Chain:
    """Ranks by the critic, pairs of single turns, the policy that learns from them."""
    return *_learned(study, way), *_measure(study, way.name)


def _learned(study: Study, way: Sweet) -> Chain:
    ranked, pairs = study.ranked(way.name), study.pairs(way.name)
    draw: dict[str, Any] = {"num_pairs": study.pairs_per_turn, "seed": study.seed, "overwrite": True}
    draw |= {"draws": way.draws, "oracle_of": "code"}
    if way.draws != "halves":
        draw |= {"margin": way.margin} | ({} if way.min_score is None else {"min_score": way.min_score})
    if way.guarded:
        draw |= GUARDS | {"twins_from": study.dialogues}
    return (
        *_ranked(study, way),
        call("generate_random_pairs_from_ranks", pairs, (str(ranked), str(pairs)), draw),
        _train(study, "train_dpo", way.name, pairs, way.settings),
    )


def _ranked(study: Study, way: Sweet) -> Chain:
    """Scores of the candidates."""
    ranked, sampled = study.ranked(way.name), study.sampled
    if way.critic == ORACLE:
        return (call(f"{OWN_STEPS}:score_by_oracle", ranked, (str(sampled), str(ranked))),)
    rank: dict[str, Any] = {**_RESUMED}
    if way.advantage == "paper":
        rank |= {"advantage": "paper", "reference_model": study.agent}
    if way.given == "none":
        rank["no_use_ground_truth"] = True
    if way.given == "wrong":
        rank["swap_test"] = True
    change = "take_swapped" if way.given == "wrong" else "shuffle_scores" if way.shuffled else ""
    scored = study.path(f"{way.name}.scored.jsonl") if change else ranked
    scores = call("rank_best_of_n", scored, (str(sampled), str(scored), str(study.critic(way.critic))), rank)
    if not change:
        return (scores,)
    return scores, call(f"{OWN_STEPS}:{change}", ranked, (str(scored), str(ranked)))
