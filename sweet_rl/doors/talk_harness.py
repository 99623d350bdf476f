"""Who plays in verifiers by default: a model that only talks, asked from the environment's own process."""

from __future__ import annotations

import verifiers.v1 as vf
from aiohttp import ClientSession, ClientTimeout
from verifiers.v1.dialects.chat import message_to_wire

NO_LIMIT = ClientTimeout(total=None)
"""Deadlines are the environment's business (`--env.agent.timeout`)."""


class TalkHarness(vf.Harness[vf.HarnessConfig]):
    """Asks the model once a turn, from this process; `null` starts a program for every turn instead."""

    APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """One reply to the conversation; the server at `endpoint` records it, and sets how it is sampled."""
        system, messages = self.resolve_prompt(data)
        opening = [{"role": "system", "content": system}] if system else []
        said = {"model": ctx.model, "messages": [*opening, *map(message_to_wire, messages)]}
        async with (
            ClientSession(headers={"Authorization": f"Bearer {secret}"}, timeout=NO_LIMIT) as client,
            client.post(f"{endpoint}/chat/completions", json=said) as reply,
        ):
            return vf.ProgramResult(exit_code=int(not reply.ok), stdout="", stderr=await reply.text())
