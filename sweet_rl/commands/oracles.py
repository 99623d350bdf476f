"""The oracle of a world, as the flags ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sweet_rl.cli.servers import key_in
from sweet_rl.contracts import User
from sweet_rl.errors import UsageError, no_such
from sweet_rl.users import USERS
from sweet_rl.worlds import World

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
