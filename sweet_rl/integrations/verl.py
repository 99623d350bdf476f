"""Every world as an agent loop of verl: each sample of a batch is one episode, token for token.

The loop is named in verl's file of agent loops, with the settings of the world beside its name; a sample's
`extra_info["task_id"]` says which task is played (docs/integrations.md#verl).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import uuid4

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.utils.profiler import simple_timer

from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.integrations.worlds import OpenWorld, choice_of, shared_world
from sweet_rl.types import Completion, FinishReason, Generation, Json, StopReason


class Response:
    """The tokens of a sample; verl's own builder for the model's family makes those of what is told.

    `ids` are prompt and response, which `begins` there; `mask` and `logprobs` (None: not asked for) are the response's.
    """

    def __init__(self, loop: AgentLoopBase, prompt: list[int], length: int, *, with_logprobs: bool) -> None:
        self._loop, self.begins, self._length = loop, len(prompt), length
        self._end = loop.tokenizer.eos_token_id
        self.ids = prompt
        self.mask: list[int] = []
        self.logprobs: list[float] | None = [] if with_logprobs else None

    @property
    def left(self) -> int:
        return self._length - len(self.mask)

    async def say(self, said: Any) -> None:
        """Add the agent's turn, as it was sampled."""
        known = None if self.logprobs is None else said.log_probs
        merged, self.mask, self.logprobs = await self._loop.ct_merge_assistant_token(
            self.ids, said.token_ids, self.mask, self.logprobs, known
        )
        self.ids = merged.token_ids

    async def tell(self, messages: list[dict[str, str]]) -> bool:
        """Add the last message, and what opens a turn; False, and nothing is added, where none has room."""
        cut = [] if self.ids[-1] == self._end else [self._end]  # what ends a turn that did not end itself
        merged, mask, logprobs = await self._loop.ct_merge_context_msg(
            messages[:-1],
            messages,
            self.ids + cut,
            self.mask + [0] * len(cut),
            None if self.logprobs is None else self.logprobs + [0.0] * len(cut),
        )
        if len(mask) >= self._length:
            return False
        self.ids, self.mask, self.logprobs = merged.token_ids, mask, logprobs
        return True


class WorldLoop(AgentLoopBase):
    """Plays an episode of a world: `choice` are the fields of `WorldChoice`, `verls` what verl gives every loop.

    A turn has at most `turn_tokens`, or what the response has left. An episode whose human or world fails is
    begun again, up to `tries` times; then its error ends the batch.
    """

    def __init__(self, *, choice: Any, turn_tokens: int | None = None, tries: int = 3, **verls: Any) -> None:
        super().__init__(**verls)
        chosen: Any = OmegaConf.to_object(OmegaConf.create(choice))
        if tries < 1 or (turn_tokens is not None and turn_tokens < 1):
            raise UsageError(f"tries and turn_tokens are at least 1, got {tries} and {turn_tokens}.")
        self._choice, self._turn_tokens, self._tries = choice_of(chosen), turn_tokens, tries
        self._length = self.rollout_config.response_length

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """One sample: the world says what is asked, whatever its prompt is."""
        task_id = row["extra_info"]["task_id"]
        async with shared_world(self._choice).open() as world:
            for _ in range(self._tries - 1):
                with suppress(EpisodeError):
                    return await self._play(world, task_id, sampling_params)
            return await self._play(world, task_id, sampling_params)

    async def _play(self, world: OpenWorld, task_id: str, sampling: dict[str, Any]) -> AgentLoopOutput:
        """Turn by turn, until it is over or the response has no room for another one."""
        async with world.episode(task_id) as episode:
            timing: dict[str, float] = {}
            extra: dict[str, Json] = {}
            request, prompt = uuid4().hex, await self.ct_build_initial_tokens(episode.messages)
            response = Response(self, prompt, self._length, with_logprobs=bool(sampling.get("logprobs")))
            over, room = False, True
            while room and not over:
                limit = {"max_tokens": min(response.left, self._turn_tokens or response.left)}
                with simple_timer("generate_sequences", timing):
                    said = await self.server_manager.generate(
                        request_id=request, prompt_ids=response.ids, sampling_params=sampling | limit
                    )
                extra |= {
                    k: v for k, v in said.extra_fields.items() if k not in extra or k == "max_global_steps"
                }
                ended = said.token_ids[-1:] == [self.tokenizer.eos_token_id]
                completion = Completion(
                    self.tokenizer.decode(said.token_ids, skip_special_tokens=True),
                    tuple(said.token_ids),
                    None if said.log_probs is None else tuple(said.log_probs),
                    FinishReason.STOP if ended else FinishReason.LENGTH,
                )
                turn = Generation(self.tokenizer.decode(response.ids), completion)
                over = (await episode.step(turn)).over
                await response.say(said)
                room = over or await response.tell(episode.messages)
            return AgentLoopOutput(
                prompt_ids=response.ids[: response.begins],
                response_ids=response.ids[response.begins :],
                response_mask=response.mask,
                response_logprobs=response.logprobs,
                reward_score=sum(episode.rewards),
                num_turns=len(episode.messages) + 1,
                metrics=AgentLoopMetrics(**timing),
                extra_fields=extra
                | {
                    "turn_scores": episode.rewards,
                    "tool_rewards": [],
                    "stop_reason": str(episode.trajectory.stop_reason or StopReason.CONTEXT_FULL),
                },
            )
