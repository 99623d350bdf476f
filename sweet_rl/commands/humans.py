"""The human that the flags ask for, put together from the rooms below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweet_rl.command_line.servers import client_of, retry_of
from sweet_rl.commands.oracles import OWN_HUMAN, OracleFlags, make_oracle
from sweet_rl.contracts import User
from sweet_rl.errors import ServiceError, UsageError, no_such, suggestion
from sweet_rl.prompts import load_prompt, prompt_digest
from sweet_rl.types import Json, UserContext, UserReply
from sweet_rl.users import USERS
from sweet_rl.worlds import World, world_of

if TYPE_CHECKING:
    from sweet_rl.openai_client import OpenAIClient

IMAGE_URLS = ("png", "jpeg", "vllm")
ORACLES_HERE = ("embedded", "auto", "scripted")
"""Names of who answers in question games where no server is named: they all mean the embedded oracle."""
HUMANS_HERE = ("scripted", "auto")
"""Names in code and html that belong to no server's model: auto is the first that a server offers."""


SERVER_FLAGS = "A model is asked behind a server: name it with --hostname and --port, or --env_base_url."

_FLAGS = "--hostname and --port, or --env_base_url, name the human's server, --env_model its model"
_NAMED_BY = {
    "code": f"{_FLAGS}; `sweet-rl serve_simulator` starts one that needs no model.",
    "html": f"{_FLAGS}; --env_model scripted is a human without a model.",
}


@dataclass(frozen=True, slots=True)
class UserFlags:
    """Who plays the human; see the flags of `simulate_interactions`."""

    model: str
    hostname: str | None
    port: int | None
    base_url: str | None
    api_key_var: str | None
    prompt_path: str | None
    request_timeout_s: float
    request_attempts: int
    task_type: str = "code"
    image_url: str = "png"
    request_patience_s: float = 300.0

    @property
    def world(self) -> World:
        """The world in which the human answers, by `--task_type`."""
        return world_of(self.task_type)

    @property
    def simulated(self) -> bool:
        """Whether it is a simulated human: neither an oracle nor the world itself."""
        return self.world.answered_by == "human"

    @property
    def own(self) -> bool:
        """Whether it is one of `USERS`, who answer in any world; a server's model may have the same name."""
        return not self.server_named and USERS.knows(self.model)

    @property
    def in_process(self) -> bool:
        """The scripted human, unless a server is named.

        Raises:
            UsageError: the scripted human of pages, and a server that does not offer it.
        """
        if self.model == "scripted" and self.task_type == "html" and self.server_named:
            raise UsageError(
                "--env_model scripted looks at pages in this process; no server offers that. Leave out "
                "--hostname, --port and --env_base_url, or name a vision model of the server."
            )
        return not server_plays(self.task_type, self.model, server_named=self.server_named)

    @property
    def server_named(self) -> bool:
        """Whether the flags say where the human is."""
        return any(flag is not None for flag in (self.hostname, self.port, self.base_url))

    def check(self) -> None:
        """Find what is wrong before anything is begun.

        Raises:
            UsageError: a flag, or the prompt; no human has that name, and no server is named.
        """
        here = HUMANS_HERE if self.simulated else ORACLES_HERE
        if self.own:
            USERS.find(self.model)
        elif not self.server_named and self.model not in here:
            here = (*here, *USERS.names())
            if not self.simulated:
                raise no_such("--env_model without a server", self.model, here, f"{SERVER_FLAGS} {OWN_HUMAN}")
            if meant := suggestion(self.model, here, "--env_model "):
                raise UsageError(f"There is no --env_model {self.model}{meant} here. {SERVER_FLAGS}")
        if self.image_url not in IMAGE_URLS:
            raise UsageError(f"--image_url must be one of {', '.join(IMAGE_URLS)}, got {self.image_url!r}.")
        if not self.in_process and self.simulated:
            self.prompt()

    def prompt(self) -> str:
        """The instructions of the model that plays the human.

        Raises:
            UsageError: there is no such file, or its placeholders are not what this human is shown.
        """
        world = self.world
        path = self.prompt_path or str(world.user_prompt)
        template = load_prompt(path)
        world.check_user_prompt(template, path)
        return template

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode."""
        if self.own:
            return {"env_model": self.model}
        if not self.simulated:
            return {"env_model": "embedded" if self.in_process else self.model}
        prompt = load_prompt(self.prompt_path or str(self.world.user_prompt))
        settings: dict[str, Json] = {"env_model": self.model, "user_prompt": prompt_digest(prompt)}
        if self.task_type == "html" and not self.in_process:
            settings["image_url"] = self.image_url
        return settings


def server_plays(world: str, model: str, *, server_named: bool) -> bool:
    """Whether a server is asked for who answers in this world."""
    answered_by = world_of(world).answered_by
    if answered_by == "human":
        return server_named or (model != "scripted" and not USERS.knows(model))
    return server_named and answered_by == "oracle"


async def make_user(flags: UserFlags, *, concurrency: int) -> User:
    """The simulated human.

    Raises:
        UsageError: the prompt lacks a placeholder, or nothing is served under that name.
        ServiceError: no server answers.
    """
    if flags.in_process:
        return _here(flags)
    from sweet_rl.openai_client import base_url_from

    if not flags.simulated:
        urls = base_url_from(flags.hostname or "127.0.0.1", flags.port or 8000, flags.base_url)
        model = None if flags.model in {"auto", "scripted"} else flags.model
        oracle = OracleFlags("openai", ",".join(urls), model, flags.api_key_var, retry_of(flags))
        return make_oracle(flags.world, oracle, concurrency=concurrency)
    template = flags.prompt()
    urls = base_url_from(flags.hostname or "127.0.0.1", flags.port or 8000, flags.base_url)
    client = client_of(urls, flags, named_by=_NAMED_BY[flags.task_type], max_connections=concurrency)
    try:
        model = await _model_of(flags, client, urls)
    except BaseException:
        await client.close()
        raise
    return flags.world.make_model_user(client, model, prompt=template, image_url=flags.image_url)


def _here(flags: UserFlags) -> User:
    if flags.world.answered_by == "world":
        return Nobody()
    if flags.own:
        return USERS.make(flags.model, flags.world, flag="env_model")  # type: ignore[no-any-return]
    return flags.world.make_user()


class Nobody:
    """The human of worlds that have none: the world itself answers."""

    name = "nobody"

    async def reply(self, context: UserContext) -> UserReply:
        """Raise NotImplementedError: these worlds ask no human."""
        raise NotImplementedError(context.problem_description)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


async def _model_of(flags: UserFlags, client: OpenAIClient, urls: Sequence[str]) -> str:
    """The model's name; where no server was named, the usual one is asked for it first."""
    if flags.model != "auto" and flags.server_named:
        return flags.model
    try:
        models = await client.models()
    except ServiceError as error:
        if flags.model == "auto":
            raise
        known = (*HUMANS_HERE, *USERS.names())
        hint = f"{OWN_HUMAN} {SERVER_FLAGS} The usual one: {error}"
        raise no_such("--env_model without a server", flags.model, known, hint) from error
    if flags.model != "auto":
        return flags.model
    if not models:
        raise UsageError(f"{urls[0]} offers no model; name one with --env_model.")
    return str(models[0]["id"])
