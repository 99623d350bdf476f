"""Whether ArCHer learns as well from a critic that reads an episode once as from one that reads utterances.

`own` is the causal critic: it reads an episode once for all of its turns, and begins with the policy's
layers; `fresh` is the same with random weights; `encoder` is a DistilBERT of random weights, of the same
width and depth, which reads every observation and utterance by itself, drawn one by one, as published. In
Twenty Questions about sixteen words all else is as in `demo_archer`; on trades the embedded agent of the mini
benchmark goes on learning, rewarded by hidden tests at an episode's end (`ON_TRADES`), and `own-shuffled` is
`own` with rewards that belong to other dialogues: it must learn nothing. Writes study.json and report.html:
means of the last iterations' episodes, and differences paired over seeds.

Run: python benchmarks/archer_critics.py [--game trades] [--critics own encoder] [--seeds 8]
     [--first_seed 200] [--folder FOLDER] [--plot FILE.png]
     python benchmarks/archer_critics.py --grid --critics fresh encoder --seeds 1 --first_seed 100
(`--grid`: three learning rates of each critic, on development seeds; resumes where it stopped)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Final

from _measure import flags, plot
from archer_settings import only
from archer_worlds import CURVES, LAST, MEASURES, panel, run_of

from sweet_rl.chat import EMBEDDED, ChatFormat, model_path
from sweet_rl.cli.stage import recorded
from sweet_rl.commands.run_archer import run
from sweet_rl.online.learner import ArcherLearner, Draw, Say
from sweet_rl.online.models import make_learner
from sweet_rl.online.replay import Transition
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.pipelines.running import run_steps
from sweet_rl.pipelines.steps import in_rounds
from sweet_rl.records import read_rows
from sweet_rl.studies import results as study_results
from sweet_rl.studies.archer.recipe import ARCHER, LAYERS, START, OnlineStudy, Overrides, rounds
from sweet_rl.studies.results import Axes, Comparison, Counted, Measure, Method, Results, Run, provenance
from sweet_rl.studies.runner import Chain, call, finish
from sweet_rl.types import derive_seed

OWN, FRESH, ENCODER, SHUFFLED = "own", "fresh", "encoder", "own-shuffled"
WORDS, TRADES = "words", "trades"

ON_TRADES: Final[Overrides] = {  # Of every run on trades, beside `archer_code`
    "template": "chat",
    "agent_prompt_path": "llm_agent_mini_prompt",
    "tasks": "mini:trades=1:train",
    "eval_tasks": "mini:trades=1:test",
    "max_steps": 6,
    "max_context": 256,
    "iterations": 12,
    "rollout_size": 128,
    "eval_freq": 1000,
    "save_freq": 4,
    "keep_checkpoints": 1,
    "warmup_iter": 4,
    "capacity": 7000,
    "whole_games": "true",
    "batch_size": 256,
    "grad_accum_steps": 1,
    "epochs": 30,
    "actor_epochs": 3,
    "lm_lr": 3e-4,
    "gamma": 0.99,
    "normalize_advantages": "true",
    "tau": 0.3,
    "dtype": "float32",
}

CRITICS: Final[Mapping[str, Overrides]] = {  # What each run has beside the configuration; rates by `--grid`
    OWN: ARCHER,
    FRESH: ARCHER,
    ENCODER: {**ARCHER, "whole_games": "false"},
}

CRITICS_ON_TRADES: Final[Mapping[str, Overrides]] = {
    **CRITICS,
    ENCODER: {**CRITICS[ENCODER], "critic_lr": 3e-4},
    SHUFFLED: CRITICS[OWN],
}

RATES: Final = (3e-4, 1e-3, 3e-3)

SPREAD: Final = 0.1
"""Of an encoder's random weights, as of all narrow ones here: with 0.02 its vectors hardly differ."""

TITLES: Final = {
    OWN: "reads an episode once, begins as the policy",
    FRESH: "reads an episode once, random weights",
    ENCODER: "reads each utterance, random weights",
    SHUFFLED: "reads an episode once, rewards of other episodes",
}

CLAIMS: Final = ((OWN, ENCODER), (FRESH, ENCODER), (OWN, SHUFFLED))  # Whose return is to be higher than whose


class Critics(OnlineStudy):
    title = "Twenty Questions about sixteen words"
    critics = CRITICS
    measures: tuple[Measure, ...] = MEASURES
    curves: tuple[Axes, ...] = CURVES

    def policy(self, seed: int) -> Path:
        return self.run(START, seed) / "policy"

    def critic(self, method: str, seed: int) -> Path:
        kind = method.partition("-")[0]
        return self.policy(seed) if kind == OWN else self.folder / f"{kind}-critic-{seed}"

    def overrides(self, method: str, seed: int) -> tuple[str, ...]:
        own = super().overrides(method, seed)
        return (*own, f"critic_lm={self.critic(method, seed)}") if method in self.methods else own

    def go(self, jobs: int) -> None:
        begins, runs = rounds(self)
        named = {self.run(method, seed).name for method in (START, *self.methods) for seed in self.numbers}
        named |= {self.teacher(seed).name for seed in self.numbers}
        begins, runs = only(begins, named), only(runs, named)
        run_steps(in_rounds([begins]), self.folder, jobs=jobs, fresh=False, small=True)
        self.make_critics()
        run_steps(in_rounds([begins, runs]), self.folder, jobs=jobs, fresh=False, small=True)

    def make_critics(self) -> None:
        """Models of random weights, as wide and as deep as the policy, with its tokenizer."""
        import torch
        from transformers import AutoConfig, AutoModel, AutoTokenizer, DistilBertConfig, DistilBertModel

        for seed in self.numbers:
            policy = AutoConfig.from_pretrained(self.policy(seed))
            tokenizer = AutoTokenizer.from_pretrained(self.policy(seed))
            encoder = DistilBertConfig(
                initializer_range=SPREAD,
                max_position_embeddings=policy.max_position_embeddings,
                pad_token_id=tokenizer.pad_token_id,
                vocab_size=policy.vocab_size,
                dim=policy.hidden_size,
                hidden_dim=4 * policy.hidden_size,
                n_heads=policy.num_attention_heads,
                n_layers=policy.num_hidden_layers,
            )
            for kind in (FRESH, ENCODER):
                folder = self.critic(kind, seed)
                if (folder / "model.safetensors").is_file():
                    continue
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(10_000 + seed)
                    model = AutoModel.from_config(policy) if kind == FRESH else DistilBertModel(encoder)
                tokenizer.save_pretrained(folder)
                model.save_pretrained(folder)

    def result(self, method: str, seed: int) -> Run:
        return run_of(self.run(method, seed), seed)


class OnTrades(Critics):
    title = "Trades of the mini benchmark"
    critics = CRITICS_ON_TRADES
    measures = (Measure("success", f"success, last {LAST} iterations"), *MEASURES)
    curves = (
        Axes("success", "success", "turns played to learn from", unit="share", main=True),
        Axes("return", "mean share of hidden tests", "turns played to learn from"),
    )

    def policy(self, seed: int) -> Path:
        return Path(model_path(EMBEDDED))

    def go(self, jobs: int) -> None:
        self.make_critics()
        runs = [self._learn(method, seed) for seed in self.numbers for method in self.methods]
        run_steps(in_rounds([runs]), self.folder, jobs=jobs, fresh=False, small=True)

    def _learn(self, method: str, seed: int) -> Chain:
        own = {
            **ON_TRADES, **self.methods[method], "seed": seed, "policy_lm": self.policy(seed),
            "critic_lm": self.critic(method, seed), "save_path": self.run(method, seed), "quiet": "true",
        }  # fmt: skip
        if self.iterations is not None:
            own["iterations"] = self.iterations
        output, overrides = self.run(method, seed), tuple(f"{name}={value}" for name, value in own.items())
        if method.startswith(SHUFFLED):
            return (call("archer_critics:learn_shuffled", output, ("archer_code", *overrides)),)
        return (call("run_archer", output, overrides, {"config_name": "archer_code"}),)

    def result(self, method: str, seed: int) -> Run:
        """Besides, the share of dialogues that passed all hidden tests."""
        run = super().result(method, seed)
        passed: dict[int, list[bool]] = defaultdict(list)
        for _, row in read_rows(self.run(method, seed) / "trajectories.jsonl"):
            passed[row["iteration"]].append(row["reward"] == 1.0)
        shares = [fmean(passed[iteration]) for iteration in sorted(passed)]
        turns = [turn for turn, _ in run.curves["return"]]
        return replace(
            run,
            measures={"success": Counted(fmean(shares[-LAST:])), **run.measures},
            curves={"success": tuple(zip(turns, shares, strict=True)), **run.curves},
        )


# ---- outcomes that belong to other episodes: what is learned then is not due to them


@recorded("archer_critics learn_shuffled", resumes=True)
def learn_shuffled(config: str, *overrides: str) -> None:
    """Run ArCHer with the rewards of last turns dealt out anew among those that are drawn together."""
    run(config, overrides, None, shuffled_learner)


class ShuffledLearner(ArcherLearner):
    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        rng = Random(derive_seed(self.settings.seed, "shuffled", self._updates))
        return super().update(lambda count: dealt_anew(draw(count), rng), update_actor=update_actor)


def dealt_anew(rows: Sequence[Transition], rng: Random) -> list[Transition]:
    """The transitions, the rewards of episodes' last ones shuffled among these."""
    places = [place for place, row in enumerate(rows) if row.done]
    rewards = [rows[place].reward for place in places]
    rng.shuffle(rewards)
    dealt = list(rows)
    for place, reward in zip(places, rewards, strict=True):
        dealt[place] = replace(rows[place], reward=reward)
    return dealt


def shuffled_learner(
    settings: ArcherSettings, *, chat_format: ChatFormat, say: Say | None = None
) -> ShuffledLearner:
    made: Any = make_learner(settings, chat_format=chat_format)
    return ShuffledLearner(settings, made.policy, made.critic, chat_format, say)


GAMES: Final = {WORDS: Critics, TRADES: OnTrades}


def main() -> None:
    given = flags(
        __doc__,
        game=tuple(GAMES),
        critics=[*CRITICS_ON_TRADES],
        seeds=8,
        first_seed=200,
        iterations=0,
        grid=False,
        folder=None,
        plot=None,
        jobs=2,
    )
    game = GAMES[given.game]
    methods = {name: game.critics[name] for name in given.critics if name in game.critics}
    if given.grid:
        methods = {
            f"{name}-{rate:g}": {**own, "critic_lr": rate} for name, own in methods.items() for rate in RATES
        }
    folder = Path(given.folder or f"outputs/archer_critics_{given.game}")
    study = game(folder, given.seeds, given.first_seed, given.iterations or None, methods=methods)
    study.go(given.jobs)
    own: dict[str, Any] = {**ON_TRADES} if given.game == TRADES else {"layers": LAYERS}
    own |= {"iterations": given.iterations} if given.iterations else {}
    own |= {f"{name}: {key}": value for name, each in methods.items() for key, value in each.items()}
    found = {}
    for name in methods:
        runs = tuple(study.result(name, seed) for seed in study.numbers)
        found[name] = Method(name, TITLES.get(name, name), runs=runs)
    pairs = [pair for pair in CLAIMS if found.keys() >= {*pair}]
    claims = [
        study_results.claim_over_seeds(
            f"{TITLES[one]}: a higher return",
            found[one],
            found[other],
            "last",
            among=sum(rival == other for _, rival in pairs),
        )
        for one, other in pairs
    ]
    part = Comparison(
        "critics",
        study.title,
        own=next(iter(found)),
        measures=study.measures,
        curves=study.curves,
        methods=tuple(found.values()),
        claims=tuple(claims),
    )
    title, settings = (
        "ArCHer's critics: an episode once, or each utterance",
        {"iterations that count": LAST, **own},
    )
    results = Results(
        "archer_critics", title, comparisons=(part,), settings=settings, provenance=provenance()
    )
    finish(folder, results)
    plot(dict([panel(part)]), given.plot)


if __name__ == "__main__":
    main()
