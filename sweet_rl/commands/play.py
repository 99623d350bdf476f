"""A person plays a game in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sweet_rl.command_line.recording import recorded
from sweet_rl.commands.belonging import Facets, belonging
from sweet_rl.errors import UsageError

if TYPE_CHECKING:
    from sweet_rl.worlds import World


def _facets(flags: Mapping[str, Any]) -> Facets:
    from sweet_rl.commands.playing import oracle_flags

    oracle = oracle_flags(flags["oracle"], flags["oracle_model"], flags["api_key_var"])
    world = _world(flags["world"])
    name = flags["world"] if ":" in flags["world"] else world.name
    return {"task_type": {name}, "answered_by": {world.answered_by}, "oracle": {oracle.kind}}


def _world(name: str) -> World:
    from sweet_rl.worlds import world_of

    return world_of(name if ":" in name else name.replace("-", "_"))


@recorded("play")
@belonging(_facets)
def play(
    world: str,
    tasks: str | None = None,
    task: int | None = None,
    seed: int | None = None,
    oracle: str = "embedded",
    oracle_model: str | None = None,
    api_key_var: str | None = None,
    max_steps: int | None = None,
    compat: str = "fixed",
    game_place: str | None = None,
    record: str | None = None,
) -> None:
    """Play a game in the terminal: see what an agent sees, type what it would write, get its rewards.

    Example, with everything embedded:

    sweet-rl play twenty_questions

    At the end the solution is shown. Ctrl-D or Ctrl-C stops the game.

    Args:
        world: twenty_questions, guess_my_city, lantern, detective, webshop, dangerous_taxi,
            auto_explore or alfworld.
        tasks: what may be drawn from, like twenty-questions:ten; default: all tasks of the world.
        task: number of the task in that list, from 0; default: drawn with the seed.
        seed: draws the task and whatever the world leaves to chance; default: another one each time.
        oracle: who answers questions: embedded (tables, no model), the folder of an encoder-decoder or a
            .pt file with its weights, or the address of a server: with --oracle_model one that speaks the
            OpenAI protocol, without it the published gradio server.
        oracle_model: the server's name for its model; for a .pt file the model that its weights belong to.
        api_key_var: environment variable that holds the server's key, which must be set; default
            OPENAI_API_KEY, if that is set.
        max_steps: turns at most; default: the world's own.
        compat: fixed, or published: the published rules with their oddities.
        game_place: for detective the game file (default: what SWEET_RL_DETECTIVE names), for webshop the
            address of a shop's server (default: the embedded shop), for auto_explore the folder of
            repositories (default: embedded ones).
        record: a .jsonl file that the game is appended to as a trajectory, like an agent's.
    """
    import asyncio
    import secrets

    from sweet_rl.command_line.servers import key_in
    from sweet_rl.commands.playing import PlayFlags, oracle_flags, play_game
    from sweet_rl.worlds import options_of

    played = _world(world)
    if played.answered_by == "human":
        raise UsageError(
            f"{played.name} is a dialogue with a human, and no game that a person can play here."
        )
    if oracle != "embedded" and played.answered_by != "oracle":
        raise UsageError(f"{played.name} has no oracle: leave out --oracle.")
    if max_steps is not None and max_steps < 1:
        raise UsageError(f"--max_steps must be at least 1, got {max_steps}.")
    if compat not in {"fixed", "published"}:
        raise UsageError(f"--compat must be fixed or published, got {compat!r}.")
    key_in(api_key_var)
    asyncio.run(
        play_game(
            PlayFlags(
                world=played,
                options=options_of(played, {"max_turns": max_steps, "compat": compat, "place": game_place}),
                oracle=oracle_flags(oracle, oracle_model, api_key_var),
                tasks=tasks or played.sources[0],
                task=task,
                seed=secrets.randbelow(2**31) if seed is None else seed,
                record=record,
            )
        )
    )
