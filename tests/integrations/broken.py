"""A human who cannot be asked."""

from sweet_rl.types import NO_RESPONSE, Failure, UserReply


class Silent:
    name = "silent"

    async def reply(self, context):
        return UserReply(NO_RESPONSE, Failure("timeout"))

    async def close(self):
        pass
