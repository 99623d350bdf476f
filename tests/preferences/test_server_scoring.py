"""The requests that rank candidates on a vLLM server, and replies that are no use."""

import asyncio

import pytest

from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.preferences.ranking import ServerScorer
from sweet_rl.types import Failure


class Client:
    """A server under which token t has the log-probability -t."""

    def __init__(self, models=({"id": "m", "owned_by": "vllm", "max_model_len": 20},), fails=False):
        self._models, self._fails = models, fails
        self.bodies = []

    async def models(self):
        return list(self._models)

    async def complete(self, body):
        self.bodies.append(body)
        await asyncio.sleep(0)
        if self._fails:
            raise RequestFailed(Failure("server_error", "broke", 500))
        ids = body["prompt"]
        entries = [{str(i): {"logprob": -float(i), "rank": 1}, "0": {"logprob": -9.0}} for i in ids[1:]]
        return [{"text": "x", "prompt_logprobs": [None, *entries]}]

    async def close(self):
        pass


def score(client, contexts, candidates):
    async def main():
        scorer = ServerScorer(client, "m")
        await scorer.start()
        return scorer.context_length, await scorer.score(contexts, candidates)

    return asyncio.run(main())


def test_each_pair_is_sent_once_as_ids_and_untempered():
    client = Client()
    limit, scores = score(client, [[1, 2], [3]], [[[4, 5], [6], [4, 5]], [[6]]])
    assert scores == [[[-4.0, -5.0], [-6.0], [-4.0, -5.0]], [[-6.0]]]
    assert limit == 19
    assert sorted(body["prompt"] for body in client.bodies) == [[1, 2, 4, 5], [1, 2, 6], [3, 6]]
    for body in client.bodies:
        assert (body["prompt_logprobs"], body["max_tokens"], body["temperature"]) == (0, 1, 1.0)


@pytest.mark.parametrize(
    ("models", "words"),
    [((), "does not serve 'm', but nothing"), (({"id": "m", "owned_by": "someone"},), "only vLLM's server")],
)
def test_servers_that_cannot_rank(models, words):
    with pytest.raises(UsageError, match=words):
        score(Client(models), [], [])


def test_failures_say_how_to_go_on():
    with pytest.raises(ServiceError, match=r"server_error: broke.*--to_continue"):
        score(Client(fails=True), [[1]], [[[2], [3]]])

    class Silent(Client):
        async def complete(self, body):
            return [{"text": "x", "prompt_logprobs": None}]

    with pytest.raises(ServiceError, match="lacks the log-probabilities"):
        score(Silent(), [[1]], [[[2]]])
