"""A scripted agent that sees only a dialogue, here as a policy and behind a server: `python -m tests.integrations.agent`."""

import asyncio
import json
from random import Random

from sweet_rl.mini.backend.extras import PLAYERS
from sweet_rl.policies.scripted import TeacherPolicy
from sweet_rl.types import NO_RESPONSE, Failure, Message, UserReply, derive_seed
from sweet_rl.users.protocol import FaultProfile
from sweet_rl.users.server import serve


def say(messages):
    """What the agent says; its draws depend on the dialogue alone."""
    dialogue = [message for message in messages if message.role != "system"]
    rng = Random(derive_seed([message.content for message in dialogue]))
    return PLAYERS["expert"](dialogue, rng, max_turns=10)


def policy():
    """The agent for our own loop."""
    return TeacherPolicy(lambda observation: say(observation.messages))


def served(messages):
    """The agent as a server's model."""
    return say([Message(message.role, message.text) for message in messages])


def hidden_in(task, told):
    """Lines of a task's solution that stand in what was told."""
    lines = [line for line in task.ground_truth.splitlines()[1:] if line.strip()]
    return [line for line in lines if json.dumps(line)[1:-1] in json.dumps(told)]


class Silent:
    """A human who cannot be asked."""

    name = "silent"

    async def reply(self, context):
        return UserReply(NO_RESPONSE, Failure("timeout"))

    async def close(self):
        pass


def designs(messages):
    """A designer that sees only a dialogue: a draft, then the same as its answer."""
    page = "<html><body><h1>Ours</h1></body></html>"
    asked = any(message.role == "assistant" for message in messages)
    return f"I WANT TO ANSWER:\n{page}" if asked else page


if __name__ == "__main__":
    asyncio.run(serve({"agent": served, "designer": designs}, FaultProfile(), "127.0.0.1", 0))
