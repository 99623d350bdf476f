"""Stage 6 of the pipeline: ranked candidates to preference pairs of single turns.

Published behaviour: docs/published/sweet_rl.md#step-pairs.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal

from sweet_rl import browsers, tracking
from sweet_rl.browsers import RenderFailed
from sweet_rl.browsers.page import RenderFlags
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.concurrency import for_each
from sweet_rl.errors import DataError, UsageError
from sweet_rl.flags import REQUIRED, flag, group
from sweet_rl.flags.models import MinReward, Tokenizer
from sweet_rl.flags.shared import (
    Compatible,
    Files,
    HardNegatives,
    Margin,
    OutputPath,
    Overwriting,
    SavedPath,
    Seeded,
)
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.preferences.pairs import (
    StepPair,
    draw_pairs,
    hard_negatives,
    pair_row,
    published_draws,
    right_pairs,
    shown_pairs,
    succeeded,
    twin,
    twins_of,
    why_unusable,
)
from sweet_rl.records import load_trajectories, read_rows, replace_file, replace_rows, trajectories_from_rows
from sweet_rl.runs import new_file
from sweet_rl.types import Json, digest
from sweet_rl.worlds import world_of


@group("Pairs")
class StepPairFlags(Files, Margin, HardNegatives, MinReward, Tokenizer, Seeded, Compatible, Overwriting):
    get_sft: bool = flag(False, "write one random candidate as both sides of each pair, for fine-tuning.")
    no_prompt: bool = flag(False, "put the prompt into both texts instead of a separate field.")
    num_pairs: int = flag(8, "most pairs for each turn.", at_least=1)
    draws: Literal["halves", "across", "best"] = flag(
        "halves",
        "which candidates are chosen and which rejected: halves (the better half against the worse half), "
        "across (scores above the middle of the range against scores below it), best (the largest score "
        "against the worse half).",
    )
    min_score: float | None = flag(
        None,
        "smallest score of a chosen candidate; with 0, the critic must like a chosen candidate at least as "
        "much as the sampler does. Default: no limit.",
    )
    twins: float = flag(
        0.0,
        "extra rows for each pair that have a turn of a successful dialogue on both sides, which --nll_loss_coef then trains on.",
        at_least=0,
    )
    twins_from: str | None = flag(
        None,
        "graded trajectories whose successful dialogues provide the twins; default: the dialogues of the ranked turns.",
        shown="all",
    )
    oracle_of: str | None = flag(
        None,
        "world whose oracle checks the pairs: the share of correct ones is reported, and the pairs stay unchanged.",
        shown="all",
    )

    def check_together(self) -> None:
        """What contradicts itself."""
        own = [name for name, usual in _OURS.items() if getattr(self, name) != usual]
        if self.published and own:
            raise UsageError(
                f"--{own[0]} {getattr(self, own[0])} does not exist in the published system: leave out --compat published."
            )
        if self.twins_from is not None and not self.twins:
            raise UsageError("--twins_from needs --twins, the number of rows to take from it.")
        if self.get_sft and (own or self.oracle_of):
            raise UsageError(
                f"--get_sft draws single candidates: leave --{', --'.join(_OURS)} and --oracle_of out."
            )

    @property
    def rule(self) -> dict[str, Any]:
        """Which pairs there may be (`sweet_rl.preferences.pairs.allowed_pairs`)."""
        return {"draws": self.draws, "margin": self.margin, "min_score": self.min_score}


_OURS: Final = {"draws": "halves", "min_score": None, "margin": 0.0, "hard_negatives": 0, "twins": 0.0}
"""Flags that the published script lacks, with what leaves it as it is."""


@recorded("generate_random_pairs_from_ranks", reads=("input_path", "twins_from", "tokenizer"))
@stage(
    "input_path",
    "output_path",
    defaults={"seed": 42, "min_reward": 1.0},
    helps={
        "input_path": "ranked turns of sweet-rl rank_best_of_n, or a published file.",
        "output_path": "the .jsonl file for the pairs.",
        "margin": "smallest difference between the scores of a pair.",
        "tokenizer": "folder or name of the tokenizer whose end token ends the texts; needed only for published files.",
        "min_reward": "reward of a successful dialogue, for --twins.",
        "compat": "fixed, or published: the published draws from the same random numbers, including ties and repetitions.",
    },
)
def generate_random_pairs_from_ranks(flags: StepPairFlags, /) -> None:
    """Draw pairs from ranked turns: a better candidate is chosen, a worse one rejected.

    Two candidates with the same text or the same score never form a pair. The file is replaced atomically,
    and the same seed gives the same file.
    """
    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    judge = None if flags.oracle_of is None else world_of(flags.oracle_of).scores.good_turn
    rows = candidates_from_rows(list(read_rows(flags.input_path)), path=flags.input_path)
    if not rows:
        raise UsageError(f"{flags.input_path!r} has no rows. Run sweet-rl rank_best_of_n first.")
    for row in rows:
        if row.scores is None and not (flags.get_sft and not flags.published):
            raise DataError(
                "is missing",
                path=flags.input_path,
                line=row.line,
                field="judge_result",
                repair="Score the candidates first, with sweet-rl rank_best_of_n.",
            )
    if flags.tokenizer is not None:
        from sweet_rl.chat import load_tokenizer
        from sweet_rl.preferences.ranking import end_token_of

        end_tokens = [end_token_of(load_tokenizer(flags.tokenizer))] * len(rows)
    else:
        end_tokens = [str(row.end_token) for row in rows]
        if (without := next((row for row in rows if row.end_token is None), None)) is not None:
            raise DataError(
                "is missing",
                path=flags.input_path,
                line=without.line,
                field="end_token",
                repair="The file does not say what ends a turn: name the sampler's tokenizer with --tokenizer.",
            )
    rng = random.Random(flags.seed)
    if flags.published:
        drawn = published_draws(rows, flags.num_pairs, rng, get_sft=flags.get_sft, path=flags.input_path)
    elif flags.get_sft:
        drawn = []
        for row in rows:  # both sides are one candidate, of which no text comes twice
            texts = [candidate.text for candidate in row.candidates]
            places = [place for place, text in enumerate(texts) if texts.index(text) == place]
            singles = rng.sample(places, min(flags.num_pairs, len(places)))
            drawn.append([StepPair(place, place) for place in singles])
    else:
        drawn = [draw_pairs(row, flags.num_pairs, rng, **flags.rule) for row in rows]
    pairs: list[dict[str, Json]] = [
        pair_row(row, pair, end_token=end, no_prompt=flags.no_prompt, published=flags.published)
        for row, end, row_pairs in zip(rows, end_tokens, drawn, strict=True)
        for pair in row_pairs
    ]
    if not pairs:
        raise UsageError(
            f"No row of {flags.input_path!r} gives a pair: {why_unusable(rows, **flags.rule)}. Sample more "
            "candidates (--best_of_n), or at a higher temperature."
        )
    guards: list[dict[str, Json]] = []
    for row, end, row_pairs in zip(rows, end_tokens, drawn, strict=True) if flags.hard_negatives else ():
        more: dict[str, Any] = {"end_token": end, "no_prompt": flags.no_prompt}
        guards += hard_negatives(row, row_pairs, flags.hard_negatives, rng, **more)
    if flags.twins:
        held, wanted = _twins(rows, end_tokens, flags), round(flags.twins * len(pairs))
        if len(held) < wanted:
            print(
                f"--twins {flags.twins:g} asks for {wanted} twins; there are {len(held)}, and all are taken."
            )
        guards += rng.sample(held, min(wanted, len(held)))
    every = pairs + guards
    rng.shuffle(every)
    tracking.writes(flags.output_path)
    replace_rows(flags.output_path, every)
    unused = [row for row, row_pairs in zip(rows, drawn, strict=True) if not row_pairs]
    print(f"{len(pairs)} pairs of {len(rows) - len(unused)} turns are in {flags.output_path}.")
    if unused:
        print(f"{len(unused)} turns gave none: {why_unusable(unused, **flags.rule)}.")
    for kind, count in Counter(row["guard"] for row in guards).items():
        print(f"{count} rows of {kind}s are among them.")
    if flags.get_sft:
        return
    margins = []
    for row, row_pairs in zip(rows, drawn, strict=True):
        scores = [score or 0.0 for score in row.scores or ()]
        margins += [scores[pair.chosen] - scores[pair.rejected] for pair in row_pairs]
    print(f"Scores of a pair differ by {fmean(margins):.3g} in the mean.")
    if judge is not None and (found := right_pairs(rows, drawn, judge)):
        total = sum(found)
        print(
            f"By the oracle of {flags.oracle_of}, {found.right / total:.1%} of the pairs are right, "
            f"{found.wrong / total:.1%} the wrong way round, and in {found.alike / total:.1%} both turns are good or both are not."
        )
    elif flags.oracle_of is not None:
        print(f"The world {flags.oracle_of} has no oracle of good turns for these.")


def _twins(
    rows: Sequence[Candidates], end_tokens: Sequence[str], flags: StepPairFlags
) -> list[dict[str, Json]]:
    """Every turn of a successful dialogue, on both sides."""
    least = 1.0 if flags.min_reward is None else flags.min_reward
    if flags.twins_from is None:
        found = [
            twin(row, end_token=end, no_prompt=flags.no_prompt)
            for row, end in zip(rows, end_tokens, strict=True)
            if succeeded(row, least)
        ]
        held = [one for one in found if one is not None]
    else:
        held = [
            one
            for trajectory in load_trajectories(flags.twins_from)
            if trajectory.reward is not None and trajectory.reward >= least
            for one in twins_of(trajectory, end_token=end_tokens[0], no_prompt=flags.no_prompt)
        ]
    if not held:
        raise UsageError(
            f"--twins {flags.twins:g}: no turn of {flags.twins_from or flags.input_path!r} is of a dialogue "
            f"with a reward of at least {least:g}. Lower --min_reward, or leave --twins out."
        )
    return held


@group("Inputs and outputs")
class PicturePairFlags(SavedPath, OutputPath, RenderFlags, Overwriting):
    pairs_path: str = flag(REQUIRED, "pairs of sweet-rl evaluate_html, with or without the hidden page.")


@recorded("picture_pairs", reads=("pairs_path", "saved_path"))
@stage(
    "pairs_path",
    "saved_path",
    "output_path",
    helps={
        "saved_path": "trajectory file from which the pairs were made.",
        "output_path": ".jsonl file for the messages. Paths of pictures are relative to its folder.",
    },
)
def picture_pairs(flags: PicturePairFlags, /) -> None:
    """Turn pairs of page dialogues into messages that show the hidden page's picture, for a vision critic.

    Each side becomes a list of messages: a system message with the picture, then the dialogue. sweet-rl
    train_dpo and sweet-rl train_reward_model read it with a vision-language model like Qwen2-VL. Pictures are
    taken from the trajectories; if they have none, the hidden page is rendered beside the output.

    sweet-rl evaluate_html runs.jsonl --k 6 --preference_path pairs.jsonl
    sweet-rl picture_pairs pairs.jsonl runs.jsonl shown.jsonl
    sweet-rl train_dpo --pretrain QWEN2_VL --dataset shown.jsonl --mean_log_prob --max_len 8192 --save_path critic
    """
    saved, output = Path(flags.saved_path), Path(flags.output_path)
    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    trajectories = trajectories_from_rows(list(read_rows(saved)), path=flags.saved_path)
    shown: dict[str, str] = {}  # each target's picture, relative to the output's folder
    for trajectory in trajectories:
        image = trajectory.extra.get("target_image")
        if isinstance(image, str) and (saved.parent / image).is_file():
            shown[trajectory.task.ground_truth] = os.path.relpath(saved.parent / image, output.parent)
    tasks = [one.task for one in trajectories]
    missing = {task.ground_truth: task.task_id for task in tasks if task.ground_truth not in shown}
    if missing:
        import asyncio

        shown |= asyncio.run(_rendered(missing, output, flags))
    targets = [shown[task.ground_truth] for task in tasks]
    rows = shown_pairs(read_rows(flags.pairs_path), trajectories, targets, path=flags.pairs_path)
    tracking.writes(output)
    replace_rows(output, rows)
    print(f"{len(rows):,} pairs are in {output}.")


async def _rendered(pages: dict[str, str], output: Path, flags: RenderFlags) -> dict[str, str]:
    """Pages, by their source, to pictures in the folder `<output>_targets`."""
    folder = output.with_name(f"{output.stem}_targets")
    tracking.writes(folder, folder=True)
    found: dict[str, str] = {}
    renderer = browsers.open_renderer(flags.rendering())

    async def render(html: str) -> None:
        try:
            page = await renderer.render(html)
        except RenderFailed as error:
            raise UsageError(f"The page of task {pages[html]!r} has no picture: {error}.") from error
        name = f"{digest(html)}.png"
        replace_file(folder / name, [page.image])
        found[html] = f"{folder.name}/{name}"

    try:
        await for_each(list(pages), render, at_once=2 * flags.browsers)
    finally:
        await renderer.close()
    return found
