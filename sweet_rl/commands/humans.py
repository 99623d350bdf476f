"""The oracle of a world, as the flags ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sweet_rl.cli.servers import asked_with, client_of, fields_of, key_in, retry_of
from sweet_rl.contracts import User
from sweet_rl.errors import ServiceError, UsageError, no_such, suggestion
from sweet_rl.flags import Only, flag, flags_of
from sweet_rl.flags.models import PatientRequests, ServerPlace
from sweet_rl.openai_client import shown
from sweet_rl.prompts import load_prompt, prompt_digest
from sweet_rl.types import Json, UserContext, UserReply
from sweet_rl.users import USERS
from sweet_rl.worlds import Options, World

if TYPE_CHECKING:
    from sweet_rl.openai_client import OpenAIClient


ORACLES = ("embedded", "seq2seq", "openai", "gradio")
OWN_HUMAN = "Your own is named as module:ATTRIBUTE, or by the entry point of an installed package."


@dataclass(frozen=True, slots=True)
class OracleFlags:
    """Who answers questions.

    Attributes:
        kind: one of `ORACLES`, or one of `USERS`.
        path: the model's folder or weights, or the server's address.
        model: the name under which a server offers it, or the base model of weights.
    """

    kind: str = "embedded"
    path: str | None = None
    model: str | None = None
    api_key_var: str | None = None
    client: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Find what is wrong before anything starts."""
        if USERS.knows(self.kind):
            USERS.find(self.kind)
            return
        if self.kind not in ORACLES:
            raise no_such("oracle", self.kind, (*ORACLES, *USERS.names()), OWN_HUMAN)
        if self.kind != "embedded" and not self.path:
            what = "the folder of the model" if self.kind == "seq2seq" else "the address of the server"
            raise UsageError(f"oracle={self.kind} needs {what} (env_load_path).")


def make_oracle(world: World, flags: OracleFlags, *, concurrency: int) -> User:
    """Who answers."""
    flags.check()
    if flags.kind == "embedded":
        return world.make_user()
    if USERS.knows(flags.kind):
        return USERS.make(flags.kind, world, flag="oracle")  # type: ignore[no-any-return]
    return world.make_oracle(
        flags.kind,
        str(flags.path),
        model=flags.model,
        api_key=key_in(flags.api_key_var),
        concurrency=concurrency,
        **flags.client,
    )


ORACLES_HERE = ("embedded", "auto", "scripted")
"""Names of who answers in question games where no server is named: they all mean the embedded oracle."""
HUMANS_HERE = ("scripted", "auto")
"""Names in dialogues that belong to no server's model: auto is the first that a server offers."""


PLACE_FLAGS = "--hostname and --port, or --env_base_url"
SERVER_FLAGS = f"A model answers through a server: name it with {PLACE_FLAGS}."

_NAMED_BY = f"The human's server is named by {PLACE_FLAGS}, its model by --env_model; "
_ANSWERED = Only("answered_by", ("human", "oracle"), "worlds in which a human or an oracle answers")
_TALKS = Only("talks", ("server",), "a human, of a world of dialogues, behind a server")
_SERVED = Only("human", ("server",), "a human behind a server (--hostname, --port or --env_base_url)")


@dataclass(frozen=True, kw_only=True)
class HumanFlags(ServerPlace, PatientRequests):
    """The human."""

    env_model: str = flag(
        "auto",
        "in question games who answers: the embedded oracle, unless a server is named; else who plays the human: auto (the first model that the server offers), the server's name for a model (for pages one with eyes), or scripted: no model, in process unless a server is named (for pages always in process).",
        only=_ANSWERED,
    )
    env_base_url: str | None = flag(
        None,
        "base URL of the human's server instead of hostname and port (like https://host/v1); several, separated by commas, share the load.",
        only=_ANSWERED,
    )
    env_api_key_var: str | None = flag(
        None,
        "environment variable that holds its key, which must be set; default OPENAI_API_KEY, if that is set.",
        shown="all",
        only=_SERVED,
    )
    env_request: str | None = flag(
        None,
        "fields of every request to it, as a JSON object; null leaves one out.",
        shown="all",
        only=_SERVED,
    )
    env_header: str | None = flag(
        None, "header of every request to it, such as 'api-key: ${VARIABLE}'.", shown="all", only=_SERVED
    )
    env_max_tokens: int = flag(
        4096, "tokens of one reply of the human at most.", at_least=1, shown="all", only=_TALKS
    )
    env_system_prompt: str | None = flag(
        None,
        "the human's system message; default 'You are a helpful assistant.', and none where it looks at pages. An empty one is none.",
        shown="all",
        only=_TALKS,
    )
    user_prompt_path: str | None = flag(
        None,
        "prompt file of the human, with {problem_description}, {hidden_information} and {dialogue_history} (for pages none is needed, and the second not allowed); default the packaged one.",
        shown="all",
        only=_SERVED,
    )

    def check_together(self) -> None:
        """Whether fields and headers can be read."""
        super().check_together()
        asked_with(self, "env")

    @property
    def server_named(self) -> bool:
        """Whether the flags say where the human is."""
        return any(flag is not None for flag in (self.hostname, self.port, self.env_base_url))

    @property
    def urls(self) -> Sequence[str]:
        """Where the human's server is, or would be."""
        from sweet_rl.openai_client import base_url_from

        return base_url_from(self.hostname or "127.0.0.1", self.port or 8000, self.env_base_url)


ANSWERED = dict.fromkeys(("hostname", "port"), _ANSWERED)
"""Where flags that others have, too, have a meaning beside `HumanFlags`."""


@dataclass(frozen=True, slots=True)
class Human:
    """Who answers in a world, before it is made.

    Args:
        called: what messages call its flags where nobody types them, by what they call them elsewhere.
    """

    flags: HumanFlags
    world: World
    options: Options = field(default_factory=Options)
    called: Mapping[str, str] = field(default_factory=dict)

    def words(self, text: str) -> str:
        """A message with the names that its flags have here."""
        for flag_name, name in self.called.items():
            text = text.replace(flag_name, name)
        return text

    @property
    def simulated(self) -> bool:
        """Whether it is a simulated human: neither an oracle nor the world itself."""
        return self.world.answered_by == "human"

    @property
    def own(self) -> bool:
        """Whether it is one of `USERS`, who answer in any world; a server's model may have the same name."""
        return not self.flags.server_named and USERS.knows(self.flags.env_model)

    @property
    def in_process(self) -> bool:
        """No server has to be asked."""
        scripted = self.flags.env_model == "scripted" and self.simulated
        if scripted and not self.world.human_is_served and self.flags.server_named:
            raise UsageError(
                self.words(
                    "The scripted human looks at pages in this process; no server offers that. Leave out "
                    f"{PLACE_FLAGS}, or name a vision model of the server with --env_model."
                )
            )
        return not server_plays(self.world, self.flags)

    def check(self) -> None:
        """Find what is wrong before anything starts."""
        model, here = self.flags.env_model, HUMANS_HERE if self.simulated else ORACLES_HERE
        if self.own:
            USERS.find(model)
        elif self.flags.server_named and self.world.answered_by == "oracle" and model in here[::2]:
            words = f"--env_model {model} is the oracle in this process, and {PLACE_FLAGS} name a server. Leave one of them out."
            raise UsageError(self.words(words))
        elif not self.flags.server_named and model not in here:
            here = (*here, *USERS.names())
            if not self.simulated:
                known = self.words("--env_model without a server")
                raise no_such(known, model, here, self.words(f"{SERVER_FLAGS} {OWN_HUMAN}"))
            if meant := suggestion(model, here, "--env_model "):
                raise UsageError(self.words(f"There is no --env_model {model}{meant} here. {SERVER_FLAGS}"))
        if not self.in_process and self.simulated:
            self.prompt()

    def prompt(self) -> str:
        """The instructions of the model that plays the human."""
        path = self.flags.user_prompt_path or str(self.world.user_prompt)
        template = load_prompt(path)
        self.world.check_user_prompt(template, path)
        return template

    def settings(self) -> dict[str, Json]:
        """What decides about the content of an episode."""
        model = self.flags.env_model
        if self.own:
            return {"env_model": model}
        if not self.simulated:
            return {"env_model": "embedded" if self.in_process else model} | self._asked()
        prompt = load_prompt(self.flags.user_prompt_path or str(self.world.user_prompt))
        settings: dict[str, Json] = {"env_model": model, "user_prompt": prompt_digest(prompt)}
        if self.in_process:
            return settings
        return settings | self.world.model_user_settings(self.options) | self._asked()

    def _asked(self) -> dict[str, Json]:
        """How a server is asked, where that is not the usual way."""
        usual = {one.name: one.default for one in flags_of(HumanFlags)}
        asked = {name: getattr(self.flags, name) for name in ("env_max_tokens", "env_system_prompt")}
        asked |= {"env_request": fields_of("env_request", self.flags.env_request) or None}
        return {name: value for name, value in asked.items() if value != usual[name]}


def server_plays(world: World, flags: HumanFlags) -> bool:
    """Whether a server is asked for who answers in this world."""
    if world.answered_by == "human":
        return flags.server_named or (flags.env_model != "scripted" and not USERS.knows(flags.env_model))
    return flags.server_named and world.answered_by == "oracle"


async def make_user(human: Human, *, concurrency: int) -> User:
    """The simulated human, or the oracle."""
    flags, world = human.flags, human.world
    if human.in_process:
        if world.answered_by == "world":
            return NoUser()
        if human.own:
            return USERS.make(flags.env_model, world, flag="env_model")  # type: ignore[no-any-return]
        return world.make_user()
    if not human.simulated:
        model = None if flags.env_model in {"auto", "scripted"} else flags.env_model
        urls = ",".join(flags.urls)
        client_args = {"retry": retry_of(flags), **asked_with(flags, "env")}
        oracle = OracleFlags("openai", urls, model, flags.env_api_key_var, client_args)
        return make_oracle(world, oracle, concurrency=concurrency)
    template = human.prompt()
    client = client_of(
        flags.urls,
        flags,
        key_var=flags.env_api_key_var,
        named_by=human.words(f"{_NAMED_BY}{world.human_hint}"),
        max_connections=concurrency,
        **asked_with(flags, "env"),
    )
    try:
        model = await _model_of(human, client)
    except BaseException:
        await client.close()
        raise
    said = {} if flags.env_system_prompt is None else {"system_prompt": flags.env_system_prompt}
    return world.make_model_user(
        client, model, prompt=template, options=human.options, max_tokens=flags.env_max_tokens, **said
    )


class NoUser:
    """The human of worlds that have none: the world itself answers."""

    name = "nobody"

    async def reply(self, context: UserContext) -> UserReply:
        """Raise NotImplementedError: these worlds ask no human."""
        raise NotImplementedError(context.problem_description)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


async def _model_of(human: Human, client: OpenAIClient) -> str:
    """The model's name; where no server was named, the usual one is asked for it first."""
    flags = human.flags
    here = flags.env_model in HUMANS_HERE or USERS.knows(flags.env_model)
    if flags.server_named and not here:
        return flags.env_model
    try:
        models = await client.models()
    except ServiceError as error:
        if flags.server_named or flags.env_model == "auto":
            raise
        known = (*HUMANS_HERE, *USERS.names())
        hint = human.words(f"{OWN_HUMAN} {SERVER_FLAGS} The usual one: {error}")
        unknown = human.words("--env_model without a server")
        raise no_such(unknown, flags.env_model, known, hint) from error
    offered, url = [str(model["id"]) for model in models], shown(flags.urls[0])
    if flags.server_named and flags.env_model not in {"auto", *offered}:
        answers = (
            f"--env_model {flags.env_model} answers in this process, and {url} offers no model of that name"
        )
        names = f" (it offers {', '.join(offered)})" if offered else ""
        raise UsageError(
            human.words(f"{answers}{names}. Leave out {PLACE_FLAGS}, or name another --env_model.")
        )
    if flags.env_model != "auto":
        return flags.env_model
    if not offered:
        raise UsageError(human.words(f"{url} offers no model; name one with --env_model."))
    return offered[0]
