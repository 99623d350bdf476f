"""The critic's view of every turn, from Python: of episodes of ours, and of dialogues of anyone's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from sweet_rl.chat import TokenizerChat
from sweet_rl.errors import UsageError, missing_package
from sweet_rl.interface.waiting import in_thread
from sweet_rl.preferences.credit import (
    Advantage,
    Crediting,
    TurnCredit,
    View,
    check_reference,
    credited,
    own_turns,
)
from sweet_rl.preferences.dialogue_credit import Dialogue, DialogueCritic, hidden_of, messages_of
from sweet_rl.preferences.ranking import Model, encoding_of
from sweet_rl.runs.facts import identity_of
from sweet_rl.runs.reading import trained_from
from sweet_rl.types import Json, Trajectory


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
        facts: what its numbers depend on, as credit files say it: digests of critic and reference, which
            advantage.

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
        reference_model = reference_model or trained_from(path)
        if advantage == "paper" and reference_model is None:
            raise UsageError("advantage='paper' needs a reference_model, which is shown the solution, too.")
        own = str(tokenizer or path)
        critic = _model(path, own, device=device, dtype=dtype)
        reference = None
        if reference_model is not None and not critic.scorer.has_value_head:
            reference = _model(reference_model, str(reference_model), device=device, dtype=dtype)
        chat = cache(lambda: TokenizerChat.from_pretrained(own))
        self._critic = DialogueCritic(critic, reference, chat, advantage)
        self.facts: dict[str, Json] = {
            "critic": identity_of(path),
            "reference": None if reference_model is None else identity_of(reference_model),
            "advantage": advantage,
        }

    def credit(self, hidden: str | None, dialogue: Dialogue) -> list[float | None]:
        """The advantage of every agent turn of a dialogue.

        Args:
            hidden: what is known in training alone, like a reference solution; None for a critic that was
                trained without any.
            dialogue: messages, ours or `{"role": ..., "content": ...}`, the agent's instructions (system)
                first. Turns that bring the prompt that their model was given (`input`) are scored behind it;
                for others the critic's chat template writes it. `token_ids` are scored as they were sampled
                where they are of the critic's tokenizer; `logprobs` are what the critic is compared with
                where there is no reference model.

        Returns:
            As many as there are assistant messages, in nats per token; None where there is no score, which
            is never 0 (`views` says why).

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

    def views(self, hidden: Sequence[str | None], dialogues: Sequence[Dialogue]) -> list[list[View]]:
        """The same with the critic's and the reference's means, and why an advantage is missing."""
        told = [hidden_of(one, f"hidden[{place}]") for place, one in enumerate(hidden)]
        read = [messages_of(one, f"dialogues[{place}]") for place, one in enumerate(dialogues)]
        return in_thread(lambda: asyncio.run(self._critic.views(told, read)))

    def of_episodes(
        self, episodes: Iterable[Trajectory], *, hidden: bool = True, without_hidden: bool = True
    ) -> list[list[TurnCredit]]:
        """Every agent turn of episodes of ours, as `sweet_rl.credit`."""
        turns = [own_turns(episode) for episode in episodes]
        every = [turn for own in turns for turn in own]
        critic = self._critic

        def work() -> list[TurnCredit]:
            check_reference(every, critic.critic, critic.reference)
            what = Crediting(hidden, without_hidden, critic.advantage)
            return asyncio.run(credited(every, critic.critic, critic.reference, what))

        scores = iter(in_thread(work))
        return [[next(scores) for _ in own] for own in turns]


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
    """Score every turn of episodes by a critic; what `sweet-rl credit` does.

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
    if not (hidden or without_hidden):
        raise UsageError("Neither hidden nor without_hidden: there is nothing to compute.")
    loaded = Critic(critic, reference_model=reference_model, advantage=advantage, device=device, dtype=dtype)
    return loaded.of_episodes(episodes, hidden=hidden, without_hidden=without_hidden)


def _model(name: str | Path, tokenizer: str, *, device: str, dtype: str) -> Model:
    try:
        from sweet_rl.training.scoring import CandidateScorer, ScorerInThread  # needs torch
    except ImportError as error:
        raise missing_package("torch", "transformers", needed_for="a critic") from error
    scorer = CandidateScorer(name, device=device, dtype=dtype)
    return Model(ScorerInThread(scorer, str(name)), encoding_of(tokenizer, needs_header=False))
