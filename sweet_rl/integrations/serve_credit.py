"""A critic as a server: the credit of every turn for other people's trainers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sweet_rl.command_line.stages import Facets, stage
from sweet_rl.commands.rank_best_of_n import ScorerFlags
from sweet_rl.flags import REQUIRED
from sweet_rl.flags.common import Listening, Quiet
from sweet_rl.flags.models import SERVED, Advantage, Critic, Tokenizer


@dataclass(frozen=True, kw_only=True)
class ServeCreditFlags(Listening, Critic, Advantage, Tokenizer, Quiet):
    """Scores."""


def _facets(flags: Mapping[str, Any]) -> Facets:
    asked = {"nobody"} if flags["engine"] == "transformers" else {"server"}
    return {"engine": {flags["engine"]}, "asked": asked}


@stage(
    "critic",
    defaults={"critic": REQUIRED, "request_timeout_s": 600.0},
    helps={
        "critic": "the critic: a checkpoint folder, a hub name, smollm2, embedded, or the name under which a server offers it.",
        "reference_model": "what the critic is compared with; default: the model that it was trained from, as the record in its folder says, else the log-probabilities that turns bring.",
        "tokenizer": "folder or name of the critic's tokenizer; default the critic's own.",
        "quiet": "print errors only.",
    },
    only={"base_url": SERVED, "api_key_var": SERVED},
    facets=_facets,
)
def serve_credit(flags: ServeCreditFlags, scorers: ScorerFlags, /) -> None:
    """Serve a critic: dialogues and hidden information in, the advantage of every agent turn out.

    POST /credit takes {"dialogues": [{"hidden": text or null, "messages": [...]}]} and gives {"advantages":
    [[...]], "why": [[...]]} with the digests of critic and reference. docs/integrations/credit.md has examples, and
    trainers that learn from it.

    The smallest run: serve_credit path/to/critic
    """
    import asyncio
    from functools import cache

    from sweet_rl import serving
    from sweet_rl.chat import TokenizerChat
    from sweet_rl.command_line.servers import key_in
    from sweet_rl.commands.crediting import facts_of, models_of
    from sweet_rl.integrations.credit_server import application
    from sweet_rl.preferences.dialogue_credit import DialogueCritic
    from sweet_rl.runs.reading import trained_from

    key_in(scorers.api_key_var)
    if flags.reference_model is None:
        flags = replace(flags, reference_model=trained_from(str(flags.critic)))
    facts = facts_of(flags)

    def ready(port: int) -> None:
        if not flags.quiet:
            print(f"Serving credit by {flags.critic} at http://{flags.host}:{port}/credit", flush=True)

    async def serve() -> None:
        async with models_of(flags, scorers) as (critic, reference):
            chat = cache(lambda: TokenizerChat.from_pretrained(flags.tokenizer or str(flags.critic)))
            app = application(
                DialogueCritic(critic, reference, chat, flags.advantage), facts, host=flags.host
            )
            await serving.serve(app, flags.host, flags.at_port, on_ready=ready)

    asyncio.run(serve())
