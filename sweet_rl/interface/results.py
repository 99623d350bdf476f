"""What is made of episodes, from Python: turn credit, preference pairs, pages, comparisons."""

from __future__ import annotations

import asyncio
import html
import tempfile
import webbrowser
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import get_args

from sweet_rl.chat import TokenizerChat
from sweet_rl.errors import DataError, UsageError, missing_package, no_such
from sweet_rl.evaluation.comparison import Comparison, IntervalWay, Source, compared, opened
from sweet_rl.evaluation.episodes import episodes_of
from sweet_rl.interface.parts import episodes_in, in_thread, in_words_of_python
from sweet_rl.preferences.credit import (
    WAYS,
    Advantage,
    Dialogue,
    DialogueCritic,
    TurnCredit,
    digest_of,
    facts_of,
    hidden_of,
    messages_of,
    own_turns,
)
from sweet_rl.preferences.credit import View as TurnView
from sweet_rl.preferences.pairs import margin_pairs, pair_rows, trajectory_pairs
from sweet_rl.preferences.ranking import Model, encoding_of
from sweet_rl.records import replace_rows, trajectory_to_row
from sweet_rl.records.rows import group_by_task
from sweet_rl.runs import new_file
from sweet_rl.runs.facts import trained_from
from sweet_rl.types import Json, Trajectory
from sweet_rl.viewer.design import DesignContents
from sweet_rl.viewer.export import export
from sweet_rl.viewer.library import Library

PICTURE_BYTES = 100_000_000
"""Room for pictures in a page."""


class Critic:
    """A critic that says of every agent turn of a dialogue how much it helped, in this process.

    The advantage of a turn a of L tokens is (1/L) * [log critic(a | h, hidden) - log reference(a | h)], in
    nats per token (SWEET-RL, arXiv 2503.15478, equation 3). A critic with a regression head gives its value.

    Args:
        path: a checkpoint folder, or a name on the hub.
        reference_model: what the critic is compared with; default: the model that it was trained from, as the
            record in its folder says, else the log-probabilities that turns bring.
        advantage: released (the reference is never told what is hidden), or paper (as the critic; needs a
            reference model).
        tokenizer: folder or name of the critic's tokenizer; default its own.
        device: "auto" (a GPU if there is one), "cpu", "cuda:1", ...
        dtype: "auto" (that of the checkpoint), "float32", "bfloat16", "float16".

    Attributes:
        facts: what its numbers depend on: digests of critic and reference, which advantage.

    Raises:
        UsageError: no such model, or nothing to compare the critic with.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        reference_model: str | Path | None = None,
        advantage: Advantage = "released",
        tokenizer: str | Path | None = None,
        device: str = "auto",
        dtype: str = "auto",
    ) -> None:
        if advantage not in get_args(Advantage):
            raise no_such("advantage", advantage, get_args(Advantage))
        reference_model = reference_model or trained_from(path)
        if advantage == "paper" and reference_model is None:
            raise UsageError("advantage='paper' needs a reference_model, which is shown the solution, too.")
        own = str(tokenizer or path)
        critic = _model(path, own, device=device, dtype=dtype)
        reference = None
        if reference_model is not None and not critic.scorer.has_value_head:
            reference = _model(reference_model, str(reference_model), device=device, dtype=dtype)
        chat = cache(lambda: TokenizerChat.from_pretrained(own))
        self.dialogue_critic = DialogueCritic(critic, reference, chat, advantage)
        self.facts: dict[str, Json] = facts_of(path, reference_model, advantage)

    def credit(self, hidden: str | None, dialogue: Dialogue) -> list[float | None]:
        """The advantage of every agent turn of a dialogue, in nats per token; None where there is no score (`views` says why).

        Args:
            hidden: what is known in training alone, like a reference solution; None for a critic trained without any.
            dialogue: messages, ours or `{"role": ..., "content": ...}`, the agent's instructions (system) first. Turns
                that bring the prompt of their model (`input`) are scored behind it; for others the critic's chat template
                writes it. `token_ids` are scored as they were sampled where they are of the critic's tokenizer; `logprobs`
                are what the critic is compared with where there is no reference model.

        Raises:
            DataError: an entry is no message of text, or what is hidden is no text.
            UsageError: nothing to compare the critic with, or a prompt that its chat template refuses.
        """
        return self.credit_many([hidden], [dialogue])[0]

    def credit_many(
        self, hidden: Sequence[str | None], dialogues: Sequence[Dialogue]
    ) -> list[list[float | None]]:
        """The same for several dialogues, in batches; what they have in common is read once."""
        return [[view.advantage for view in views] for views in self.views(hidden, dialogues)]

    def views(self, hidden: Sequence[str | None], dialogues: Sequence[Dialogue]) -> list[list[TurnView]]:
        """The same with the critic's and the reference's means, and why an advantage is missing."""
        told = [hidden_of(one, f"hidden[{place}]") for place, one in enumerate(hidden)]
        read = [messages_of(one, f"dialogues[{place}]") for place, one in enumerate(dialogues)]
        return in_thread(lambda: asyncio.run(self.dialogue_critic.views(told, read)))


def credit(
    episodes: Iterable[Trajectory],
    critic: str | Path,
    *,
    hidden: bool = True,
    without_hidden: bool = True,
    reference_model: str | Path | None = None,
    advantage: Advantage = "released",
    device: str = "auto",
    dtype: str = "auto",
) -> list[list[TurnCredit]]:
    """Score every turn of episodes by a critic; what `sweet-rl credit score` does.

    Args:
        episodes: finished ones, of any world.
        critic: a checkpoint folder, or a name on the hub.
        hidden: score with the hidden solution before the dialogue.
        without_hidden: score without it.
        reference_model: what the critic is compared with; default: the model that it was trained from, as the
            record in its folder says, else what the sampler recorded.
        advantage: released, or paper (equation 3; needs a reference model).
        device: "auto" (a GPU if there is one), "cpu", "cuda:1", ...
        dtype: "auto" (that of the checkpoint), "float32", "bfloat16", "float16".

    Returns:
        For every episode its agent turns' scores. A turn without a score says why
        (`sweet_rl.preferences.credit.WHY`).

    Raises:
        UsageError: no such model, or nothing to compare the critic with.
    """
    turns = [own_turns(episode) for episode in episodes_in(episodes, "credit")]
    every = [turn for own in turns for turn in own]
    loaded = Critic(critic, reference_model=reference_model, advantage=advantage, device=device, dtype=dtype)
    ways = [way for way, asked in zip(WAYS, (hidden, without_hidden), strict=True) if asked]

    async def work() -> list[TurnCredit]:
        compared = loaded.dialogue_critic.compared
        views = {way: await compared(every, told=way == "hidden") for way in ways}
        digests = [digest_of(turn) for turn in every]
        both = enumerate(zip(every, digests, strict=True))
        return [
            TurnCredit(turn.key, own, **{way: views[way][at] for way in ways}) for at, (turn, own) in both
        ]

    scores = iter(in_thread(lambda: asyncio.run(work())))
    return [[next(scores) for _ in own] for own in turns]


@in_words_of_python()
def _model(name: str | Path, tokenizer: str, *, device: str, dtype: str) -> Model:
    try:
        from sweet_rl.training.scoring import CandidateScorer, ScorerInThread  # needs torch
    except ImportError as error:
        raise missing_package("torch", "transformers", needed_for="a critic") from error
    scorer = CandidateScorer(name, device=device, dtype=dtype)
    return Model(ScorerInThread(scorer, str(name)), encoding_of(tokenizer, needs_header=False))


def pairs(
    trajectories: Iterable[Trajectory], *, margin: float | None = None, with_ground_truth: bool = False
) -> list[dict[str, str]]:
    """Pairs of graded episodes of one task; what the evaluation commands write for `train_dpo`.

    Args:
        trajectories: with rewards, several of each task, as many of one as of the other.
        margin: by how much rewards of a pair differ at least; default: an episode with reward 1 is
            preferred to those of its task with less, as published for hidden tests.
        with_ground_truth: put the hidden solution before each dialogue: the critic's data.

    Returns:
        Rows of a preference file: {"chosen": text, "rejected": text}, prompts and all.

    Raises:
        UsageError: no episode has a reward.
        DataError: tasks have different numbers of episodes.
    """
    known = episodes_in(trajectories, "pairs")
    rewards = [None if one.failed else one.reward for one in known]
    if known and all(reward is None for reward in rewards):
        raise UsageError("None of these episodes has a reward: grade them first (sweet_rl.grade).")
    if margin is not None and not margin > 0:
        raise UsageError(f"margin must be above 0, got {margin}.")
    if not known:
        return []
    (most, of_most), *_, (fewest, of_fewest) = [*Counter(one.task.task_id for one in known).most_common()] * 2
    if of_most != of_fewest:
        raise DataError(
            f"has {of_most} episodes of the task {most!r} and {of_fewest} of {fewest!r}",
            repair="Pairs are made of as many of each: simulate with repeats, and leave none out.",
        )
    groups = group_by_task(known, len(known) // len({one.task.task_id for one in known}))
    usable = [
        one.last_turn is not None and reward is not None for one, reward in zip(known, rewards, strict=True)
    ]
    if margin is None:
        found = trajectory_pairs([reward or 0.0 for reward in rewards], groups, usable)
    else:
        found = margin_pairs(rewards, groups, margin, usable)
    return pair_rows(known, found, with_ground_truth=with_ground_truth)


class View:
    """A page with all episodes in it, which loads nothing else; in a notebook it shows itself.

    Attributes:
        path: of the HTML file.
        height: of the frame in a notebook, in pixels.
    """

    def __init__(self, path: Path, height: int) -> None:
        self.path, self.height = path, height

    def open(self) -> bool:
        """Show it in the default browser; False where none could be started."""
        return webbrowser.open(self.path.resolve().as_uri())

    def _repr_html_(self) -> str:
        page = html.escape(self.path.read_text(encoding="utf-8"))
        frame = f"width:100%;height:{self.height}px;border:0"
        return f'<iframe title="{html.escape(self.path.name)}" style="{frame}" srcdoc="{page}"></iframe>'

    def __repr__(self) -> str:
        return f"View({str(self.path)!r})"


def view(
    what: str | Path | Iterable[Trajectory],
    path: str | Path | None = None,
    *,
    overwrite: bool = False,
    height: int = 700,
) -> View:
    """Make a page of episodes; what `sweet-rl view --export` does.

    Args:
        what: trajectories, or a file of them; the pictures that they name become part of the page.
        path: the .html file; default: a temporary one.
        overwrite: replace it when it exists.
        height: of the frame in a notebook, in pixels.

    Returns:
        The page: the last line of a notebook's cell shows it, `view(...).open()` a browser.

    Raises:
        UsageError: there are no episodes; the file exists.
    """
    trajectories = None if isinstance(what, (str, Path)) else episodes_in(what, "view")
    if trajectories == []:
        raise UsageError("There are no episodes to look at.")
    out = Path(path or Path(tempfile.mkdtemp(prefix="sweet_rl_view_"), "episodes.html"))
    with in_words_of_python():
        new_file(out, "path", overwrite=overwrite)
    with tempfile.TemporaryDirectory(prefix="sweet_rl_view_") as folder:
        source, beside = Path(folder, f"{len(trajectories or ())} episodes.jsonl"), Path.cwd()
        if trajectories is None:
            source, beside = Path(str(what)), Path(str(what)).parent
        else:
            replace_rows(source, map(trajectory_to_row, trajectories))
        library = Library([source], drawing=lambda read, _: DesignContents(read, folder=beside))
        if trajectories is not None:  # their file is no place to look for
            library.about["command"] = "sweet_rl.view(episodes)"
        in_thread(lambda: export(library, out, picture_bytes=PICTURE_BYTES, one_file=True))
    return View(out, height)


def compare(
    *runs: str | Path | Iterable[Trajectory], interval: IntervalWay = "student", force: bool = False
) -> Comparison:
    """Compare the first run with each other one, task by task; what `sweet-rl compare` prints.

    Args:
        runs: files of trajectories, folders of `sweet-rl eval`, or graded trajectories.
        interval: of differences: "student" or "bootstrap", over tasks.
        force: compare what runs share, although they are of other tasks, humans, rules or graders.

    Raises:
        UsageError: fewer than two runs; they cannot be compared.
        DataError: a file is broken.
    """
    sources = list[Source]()
    for label, run in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", runs, strict=False):
        if isinstance(run, str | Path):
            found = opened(str(run))
            if not isinstance(found, Source):
                raise UsageError(
                    f"{str(run)!r} is a training: `sweet-rl compare` shows trainings side by side."
                )
            sources.append(found)
        else:
            sources.append(Source(label, Path(label), episodes_of(episodes_in(run, "compare"))))
    return compared(sources, interval=interval, force=force)
