"""What an OpenEnv server of ours and its clients tell each other."""

from openenv.core.env_server.types import Action, Observation, State


class Say(Action):
    """The agent's turn: what it says."""

    text: str


class Heard(Observation):
    """What the agent may see.

    `text` is what it is told next; `messages` the dialogue so far as a chat model is given it, the world's
    instructions first; `task_id` names the task.
    """

    text: str = ""
    messages: list[dict[str, str]] = []  # noqa: RUF012 - pydantic copies it
    task_id: str = ""


class Played(State):
    """Where the episode is; `rewards` are those of its turns."""

    task_id: str | None = None
    sample_index: int | None = None
    rewards: list[float] = []  # noqa: RUF012 - likewise
    stop_reason: str | None = None
