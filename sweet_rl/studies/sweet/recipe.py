"""Chains of stages of the mini study: SWEET-RL, its ablations and rivals, all from the same dialogues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweet_rl.pipelines.steps import Step
from sweet_rl.studies.chains import Chain, Flags, call
from sweet_rl.worlds.backend_programming.mini import extras


@dataclass(frozen=True, slots=True)
class Study:
    """What a study is made of. The defaults are those of the demo; they were chosen on `mini:dev`.

    `turns_fraction` is the part of the dialogues whose turns are sampled anew. `page_tasks` are tasks of
    Frontend Design that the designers without a model are measured on; 0 for none.
    """

    folder: Path
    agent: str
    human: str
    seed: int = 0
    world: str = "usual"
    train_tasks: int = 600
    repeats: int = 4
    test_split: str = "test"
    test_tasks: int = 500
    candidates: int = 16
    turns_fraction: float = 0.1
    pairs_per_turn: int = 4
    page_tasks: int = 0

    def path(self, name: str) -> Path:
        """A file or folder of the study."""
        return self.folder / name

    @property
    def dialogues(self) -> Path:
        """The offline data: what every method learns from."""
        return self.path("offline.jsonl")


DESIGNERS = ("blank", "generic", "improver", "target")
"""Designers that need no model, from the floor to the ceiling."""

TRAIN = {"train_batch_size": 32, "micro_train_batch_size": 32, "eval_fraction": 0, "quiet": True}
"""Flags of every training here."""

# The best of their grids on mini:dev, by benchmarks/mini_settings.py.
CRITIC = {"learning_rate": 1e-4, "max_epochs": 4}
POLICY = {"learning_rate": 4e-4, "beta": 0.3, "nll_loss_coef": 0.1}
DIALOGUE_DPO = {"learning_rate": 2e-4, "beta": 0.3, "nll_loss_coef": 0.3, "max_epochs": 2}
REJECTION = {"learning_rate": 1e-3, "max_epochs": 8}


@dataclass(frozen=True, slots=True)
class Sweet:
    """One way of SWEET-RL: which critic, how its scores are taken, how the policy is trained."""

    name: str
    critic: str
    advantage: str = "released"
    hidden: bool = True
    mean: bool = True
    settings: Flags = field(default_factory=lambda: POLICY)


SWEETS = (
    Sweet("sweet", "critic"),
    Sweet("sweet_paper", "critic", advantage="paper"),
    Sweet("sweet_no_hidden", "critic_no_hidden", hidden=False),
    Sweet("sweet_no_normalisation", "critic_no_normalisation", mean=False),
)


def rounds(study: Study) -> Sequence[Sequence[Chain]]:
    """All chains; those of a round need what the rounds before it made."""
    # Pages come last: nothing follows from them, so nothing is made anew when they are.
    return [data(study)], first_round(study), second_round(study), [*third_round(study), *page_chains(study)]


def data(study: Study) -> Chain:
    """The offline dialogues of the agent, graded, and the pairs of whole dialogues."""
    grading = {
        "k": study.repeats,
        "preference_path": study.path("pairs.jsonl"),
        "ground_truth_preference_path": study.path("pairs_hidden.jsonl"),
        "overwrite": True,
        "quiet": True,
    }
    return (
        *_tasks(study),
        _simulate(study, study.agent, study.path("train.jsonl"), study.dialogues, study.repeats),
        call("evaluate_code", study.path("pairs.jsonl"), (str(study.dialogues),), grading),
    )


def first_round(study: Study) -> list[Chain]:
    """What needs the offline data only: critics, candidates, the rivals, the agent as it is."""
    return [
        critic(study),
        candidates(study),
        critic(study, "critic_no_hidden", hidden=False),
        critic(study, "critic_no_normalisation", mean=False),
        dialogue_dpo(study),
        rejection(study),
        _measure(study, "warm_start", model=study.agent),
    ]


def second_round(study: Study) -> list[Chain]:
    """What needs a critic and the candidates: one chain for each way of SWEET-RL."""
    return [sweet(study, way) for way in SWEETS]


def third_round(study: Study) -> list[Chain]:
    """Some test dialogues of the agent before and after, with the critic's view of every turn."""
    return [
        _looked_at(study, name, model)
        for name, model in (("warm_start", study.agent), ("sweet", str(study.path("sweet"))))
    ]


def _looked_at(study: Study, name: str, model: str) -> tuple[Step, Step]:
    sampled, ranked = f"{name}.seen.sampled.jsonl", study.path(f"{name}.seen.jsonl")
    fraction = min(1.0, 24 / study.test_tasks)
    return (
        _sample(study, model, study.path(f"{name}.test.jsonl"), sampled, fraction),
        call(
            "rank_best_of_n",
            ranked,
            (str(study.path(sampled)), str(ranked), str(study.path("critic"))),
            {"reference_model": study.agent, "to_continue": True, "quiet": True},
        ),
    )


def _tasks(study: Study) -> tuple[Step, ...]:
    return tuple(
        call(
            "generate_tasks",
            study.path(f"{name}.jsonl"),
            (str(study.path(f"{name}.jsonl")),),
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


def _simulate(study: Study, model: str, tasks: Path, output: Path, repeats: int) -> Step:
    return call(
        "simulate_interactions",
        output,
        (str(tasks), str(output)),
        {
            "agent_model": model,
            "agent_prompt_path": "llm_agent_mini_prompt",
            "env_model": "scripted",
            "env_base_url": study.human,
            "best_of_n": repeats,
            "max_turns": extras.MAX_TURNS,
            "max_tokens": 48,
            "batch_size": 256,
            "max_batch": 256,
            "seed": study.seed,
            "to_continue": True,
            "quiet": True,
        },
    )


def _measure(study: Study, name: str, model: str | None = None) -> tuple[Step, Step]:
    """The agent on the test tasks, graded; the model is the one of that name if no other is given."""
    output = study.path(f"{name}.test.jsonl")
    return (
        _simulate(study, model or str(study.path(name)), study.path("test.jsonl"), output, 1),
        call("evaluate_code", study.path(f"{name}.test.report.json"), (str(output),), {"quiet": True}),
    )


def _train(study: Study, name: str, pairs: str, flags: Flags) -> Step:
    return call(
        "train_dpo",
        study.path(name),
        flags={
            "pretrain": study.agent,
            "dataset": study.path(pairs),
            "save_path": study.path(name),
            "seed": study.seed,
            **TRAIN,
            **flags,
        },
    )


def critic(study: Study, name: str = "critic", *, hidden: bool = True, mean: bool = True) -> Chain:
    """The critic: DPO on pairs of whole dialogues, each after its hidden solution if `hidden`."""
    pairs = "pairs_hidden.jsonl" if hidden else "pairs.jsonl"
    flags = CRITIC | {"mean_log_prob": "trajectory" if mean else "none"}
    return (_train(study, name, pairs, flags),)


def candidates(study: Study) -> Chain:
    """New candidates for the turns of some of the dialogues."""
    return (_sample(study, study.agent, study.dialogues, "sampled.jsonl"),)


def dialogue_dpo(study: Study, name: str = "dpo", settings: Flags = DIALOGUE_DPO) -> Chain:
    """Multi-turn DPO on pairs of whole dialogues."""
    return _train(study, name, "pairs.jsonl", settings), *_measure(study, name)


def rejection(study: Study, name: str = "rft", settings: Flags = REJECTION) -> Chain:
    """Fine-tuning on the successful dialogues."""
    flags = {
        "pretrain": study.agent,
        "dataset": study.dialogues,
        "min_reward": 1.0,
        "save_path": study.path(name),
        "seed": study.seed,
        **TRAIN,
        **settings,
    }
    return call("train_sft", study.path(name), flags=flags), *_measure(study, name)


def _sample(study: Study, model: str, dialogues: Path, name: str, fraction: float | None = None) -> Step:
    return call(
        "sample_best_of_n",
        study.path(name),
        (str(dialogues), str(study.path(name)), model),
        {
            "best_of_n": study.candidates,
            "data_fraction": study.turns_fraction if fraction is None else fraction,
            "shuffle": fraction is None,
            "max_tokens": 48,
            "max_batch": 256,
            "seed": study.seed,
            "to_continue": True,
            "quiet": True,
        },
    )


def sweet(study: Study, way: Sweet) -> Chain:
    """Ranks by the critic, pairs of single turns, the policy that learns from them."""
    ranked, pairs = study.path(f"{way.name}.ranked.jsonl"), study.path(f"{way.name}.pairs.jsonl")
    rank: dict[str, Any] = {"to_continue": True, "quiet": True}
    if way.advantage == "paper":
        rank |= {"advantage": "paper", "reference_model": study.agent}
    if not way.hidden:
        rank["no_use_ground_truth"] = True
    if not way.mean:
        rank["use_sum"] = True
    return (
        call(
            "rank_best_of_n",
            ranked,
            (str(study.path("sampled.jsonl")), str(ranked), str(study.path(way.critic))),
            rank,
        ),
        call(
            "generate_random_pairs_from_ranks",
            pairs,
            (str(ranked), str(pairs)),
            # The published draws keep pairs of twins: no preference, but their NLL holds on to what all
            # candidates of a turn agree on, such as answering in the last one.
            {"num_pairs": study.pairs_per_turn, "compat": "published", "seed": study.seed, "overwrite": True},
        ),
        _train(study, way.name, pairs.name, way.settings),
        *_measure(study, way.name),
    )


def page_chains(study: Study) -> list[Chain]:
    """The dialogues of each designer, graded; the one that takes longest comes first."""
    if not study.page_tasks:
        return []
    names = sorted(DESIGNERS, key=lambda name: name != "improver")
    return [_designed(study, name) for name in names]


def _designed(study: Study, name: str) -> tuple[Step, Step]:
    rendering = {"browsers": 1, "render_cache": page_cache(study), "quiet": True}
    output = page_dialogues(study, name)
    return (
        call(
            "simulate_interactions",
            output,
            ("mini-web:test", str(output)),
            {
                "task_type": "html",
                "agent_model": name,
                "env_model": "scripted",
                "num_tasks": study.page_tasks,
                "seed": study.seed,
                "to_continue": True,
                **rendering,
            },
        ),
        call("evaluate_html", study.path(f"pages.{name}.report.json"), (str(output),), rendering),
    )


def page_dialogues(study: Study, name: str) -> Path:
    """The dialogues of a designer."""
    return study.path(f"pages.{name}.jsonl")


def page_cache(study: Study) -> Path:
    """All designers render the same targets, and every draft is graded later: each page is rendered once."""
    return study.path("pages.rendered")
