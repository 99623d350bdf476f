"""Whether ArCHer learns as well from a critic that reads a game once as from one that reads each utterance.

Twenty Questions about sixteen words, all as in `demo_archer` but the critic. `own` is the study's: causal, it
reads a game once for all of its turns, and begins with the policy's layers; `fresh` is the same with random
weights; `encoder` is a DistilBERT of random weights, of the same width and depth, which reads every
observation and utterance by itself, drawn one by one, as published. Writes study.json and report.html: mean
returns of the last iterations' games, and differences paired over seeds.

Run: python benchmarks/archer_critics.py [--critics own encoder] [--seeds 8] [--first_seed 200]
     [--folder FOLDER]
     python benchmarks/archer_critics.py --grid --critics fresh encoder --seeds 1 --first_seed 100
(`--grid`: three learning rates of each critic, on development seeds; resumes where it stopped)
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from archer_settings import only
from archer_worlds import CURVES, LAST, MEASURES, run_of

from sweet_rl.pipelines.running import How, run_steps
from sweet_rl.pipelines.steps import in_rounds
from sweet_rl.studies.archer.recipe import OnlineStudy, rounds
from sweet_rl.studies.archer.settings import ARCHER, LAYERS, Overrides
from sweet_rl.studies.outcome import finish
from sweet_rl.studies.results import Comparison, Method, Results, claim_over_seeds, provenance

OWN, FRESH, ENCODER = "own", "fresh", "encoder"

CRITICS: Final[Mapping[str, Overrides]] = {
    OWN: ARCHER,
    FRESH: ARCHER,
    ENCODER: {**ARCHER, "whole_games": "false"},
}
"""What each run has beside the demo's configuration; rates by `--grid`."""

RATES: Final = (3e-4, 1e-3, 3e-3)

TITLES: Final = {
    OWN: "reads a game once, begins as the policy",
    FRESH: "reads a game once, random weights",
    ENCODER: "reads each utterance, random weights",
}


class Critics(OnlineStudy):
    """Runs that differ in their critics; a method's name begins with its critic's."""

    def critic(self, method: str, seed: int) -> Path:
        """The folder of the model that a run's critic begins as."""
        kind = method.partition("-")[0]
        return self.start(seed) / "policy" if kind == OWN else self.folder / f"{kind}-critic-{seed}"

    def overrides(self, method: str, seed: int) -> tuple[str, ...]:
        """Those of the study, with the critic of a method."""
        own = super().overrides(method, seed)
        return (*own, f"critic_lm={self.critic(method, seed)}") if method in self.methods else own


def main() -> None:
    """Run what is missing, then write the page."""
    arguments = _arguments()
    methods = {name: CRITICS[name] for name in arguments.critics}
    if arguments.grid:
        methods = {
            f"{name}-{rate:g}": {**own, "critic_lr": rate} for name, own in methods.items() for rate in RATES
        }
    study = Critics(Path(arguments.folder), arguments.seeds, arguments.first_seed, methods=methods)
    how = How(jobs=arguments.jobs, fresh=False, small=True)
    begins, runs = rounds(study)
    starts = {study.teacher(seed).name for seed in study.numbers} | {
        study.start(seed).name for seed in study.numbers
    }
    run_steps(in_rounds([only(begins, starts)]), study.folder, how)
    for seed in study.numbers:
        _make_critics(study, seed)
    named = {study.run(method, seed).name for method in methods for seed in study.numbers}
    run_steps(in_rounds([only(begins, starts), only(runs, named)]), study.folder, how)
    finish(
        study.folder,
        Results(
            "archer_critics",
            "ArCHer's critics: a game once, or each utterance",
            comparisons=(_comparison(study),),
            settings={"iterations that count": LAST, "layers": LAYERS},
            provenance=provenance(),
        ),
    )


def _make_critics(study: Critics, seed: int) -> None:
    """Two models of random weights, as wide and as deep as the policy, with its tokenizer."""
    import torch
    from transformers import AutoConfig, AutoTokenizer, DistilBertModel, GPT2LMHeadModel, PreTrainedModel

    start = study.start(seed)
    tokenizer = AutoTokenizer.from_pretrained(start / "policy")
    for kind in (FRESH, ENCODER):
        folder = study.critic(kind, seed)
        if (folder / "model.safetensors").is_file():
            continue
        config = AutoConfig.from_pretrained(start / ("policy" if kind == FRESH else "critic"))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(10_000 + seed)
            model: PreTrainedModel
            if kind == FRESH:
                model = GPT2LMHeadModel(config)
            else:
                config.n_layers = LAYERS
                model = DistilBertModel(config)
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)


def _comparison(study: Critics) -> Comparison:
    methods = {}
    for name in study.methods:
        runs = tuple(run_of(study.run(name, seed), seed) for seed in study.numbers)
        methods[name] = Method(name, TITLES.get(name, name), runs=runs)
    pairs = [one for one in (OWN, FRESH) if {one, ENCODER} <= methods.keys()]
    claims = [
        claim_over_seeds(
            f"{TITLES[one]}: a higher return", methods[one], methods[ENCODER], "last", among=len(pairs)
        )
        for one in pairs
    ]
    return Comparison(
        "critics",
        "Twenty Questions about sixteen words",
        own=next(iter(methods)),
        measures=MEASURES,
        curves=CURVES,
        methods=tuple(methods.values()),
        claims=tuple(claims),
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--critics", nargs="+", choices=tuple(CRITICS), default=[*CRITICS])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first_seed", type=int, default=200)
    parser.add_argument("--grid", action="store_true", help="try learning rates of the critics instead")
    parser.add_argument("--folder", default="outputs/archer_critics")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
