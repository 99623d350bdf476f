"""A human who tells in which direction a number lies, and of anything else that it is not what they want."""

from sweet_rl.types import UserReply


class Teller:
    """Answers the last thing that was said, in any world.

    Args:
        world: in which they are asked.
    """

    def __init__(self, world):
        self.name = f"teller of {world.name}"

    async def reply(self, context):
        said = context.messages[-1].content.strip().rstrip(".?!").rpartition(" ")[2]
        if not (said.isdigit() and context.hidden_information.isdigit()):
            return UserReply("That is not what I want.")
        return UserReply("Higher." if int(said) < int(context.hidden_information) else "Lower.")

    async def close(self):
        pass


class Liar(Teller):
    """Says the contrary."""

    async def reply(self, context):
        told = await super().reply(context)
        return UserReply({"Higher.": "Lower.", "Lower.": "Higher."}.get(told.content, told.content))
