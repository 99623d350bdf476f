"""One iteration's ArCHer updates on the published sizes, against the published arithmetic written plainly.

A GPT-2-shaped policy and a RoBERTa-shaped critic with random weights learn from transcripts of 20 questions.
Each side runs in a process of its own and makes the same steps from the same buffer: critic steps, then
policy steps, of G x B rows. The plain side does what the published code does: micro-batches of B in the
order they were drawn, padded to their longest row; a `generate` of all new tokens in each of them; every text
encoded whenever it is needed; anomaly detection on. Ours samples everything for the critic first and encodes
each distinct text once a step; "ours, causal" has a critic of GPT-2's shape, which reads an episode once, and
draws whole games (`whole_games`).

A whole iteration (50 critic and 3 policy steps of 256 rows) takes hours on a small CPU. So one step of each
kind is timed, of fewer rows, and the iteration's time is what those add up to; more rows a step only help
ours. Ours samples for all critic steps at once, so that is timed on some episodes whose transitions come as
often as in the first iteration (`--draws`), and counted by rows. Beside the
clock's seconds are the processor's, which a busy machine changes less.

Run: python benchmarks/archer_update.py [--rows 32] [--draws 5] [--size small|tiny] [--threads 2]
     [--sides plain ours causal]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import time
from collections.abc import Sequence
from typing import Any

from _measure import flags, heading, in_a_process, learned_tokenizer, save, show

CRITIC_STEPS, ACTOR_STEPS, ROWS = 50, 3, 256  # Of a published iteration

B, NEW_TOKENS, TURNS, EPISODES = 8, 32, 20, 128
WORDS = (
    "is it alive big small made of wood metal soft a tool toy an animal can you eat wear drive does have wheels legs "
    "keys found in the kitchen garden ocean used for music sports larger than car"
).split()


def main() -> None:
    given = flags(
        __doc__,
        rows=32,
        draws=CRITIC_STEPS * ROWS / (EPISODES * TURNS),
        size=("small", "tiny"),
        utterance=8.0,
        threads=0,
        max_tokens_per_batch=4096,
        sides=[*SIDES],
        side=None,
        output=None,
    )
    if given.side:
        print(json.dumps(measure(given)))
        return
    shared = {name: value for name, value in vars(given).items() if name not in {"side", "sides", "output"}}
    found = {side: in_a_process(__file__, {"side": side, **shared}) for side in given.sides}
    for row in found.values():
        for kind in ("", "cpu_"):
            steps = CRITIC_STEPS * row[f"critic_{kind}s"] + ACTOR_STEPS * row[f"actor_{kind}s"]
            row[f"iteration_{kind}s"] = steps * ROWS / given.rows
    print(f"{heading()}\n{json.dumps(vars(given))}")
    show(
        (
            "side",
            f"s a critic step of {given.rows} (CPU)",
            "s a policy step (CPU)",
            "h an iteration",
            "peak GiB",
        ),
        [
            [
                side,
                *(f"{row[f'{kind}_s']:.1f} ({row[f'{kind}_cpu_s']:.1f})" for kind in ("critic", "actor")),
                f"{row['iteration_s'] / 3600:.2f}",
                f"{row['peak_gib']:.1f}",
            ]
            for side, row in found.items()
        ],
    )
    ratios = {
        side: {key: found["plain"][key] / row[key] for key in row if key.endswith("_s")}
        for side, row in found.items()
        if side != "plain" and "plain" in found
    }
    for side, ratio in ratios.items():
        print(f"{side} is faster by {', '.join(f'{kind} {value:.2f}' for kind, value in ratio.items())}")
    save(given.output, arguments=vars(given), sides=found, ratios=ratios)


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    import torch

    torch.manual_seed(0)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    policy, critic, tokenizer = make_models(arguments, causal=arguments.side == "causal")
    rows = transcripts(random.Random(0))
    rng = random.Random(1)

    side = SIDES[arguments.side](policy, critic, tokenizer, arguments)

    def draw(count: int) -> list[Any]:
        return side.drawn(rows, count, rng)

    sampled = side.sampling_rows(rows, rng)
    sampling_s, sampling_cpu_s = _timed(lambda: side.sample(sampled), max(1, len(sampled)))
    critic_s, critic_cpu_s = _timed(lambda: side.critic_step(draw(arguments.rows)), 1)
    actor_s, actor_cpu_s = _timed(lambda: side.actor_step(draw(arguments.rows)), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated() / 2**30
    return {
        "critic_s": critic_s + sampling_s * arguments.rows, "actor_s": actor_s,
        "critic_cpu_s": critic_cpu_s + sampling_cpu_s * arguments.rows, "actor_cpu_s": actor_cpu_s,
        "of_which_sampling_s": sampling_s * arguments.rows, "peak_gib": peak,
    }  # fmt: skip


def _timed(work: Any, steps: int) -> tuple[float, float]:
    import torch

    began, cpu_began = time.perf_counter(), time.process_time()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / max(1, steps), (time.process_time() - cpu_began) / max(1, steps)


class Ours:
    def __init__(self, policy: Any, critic: Any, tokenizer: Any, arguments: argparse.Namespace) -> None:
        from sweet_rl.chat import PlainChat
        from sweet_rl.online.learner import ArcherLearner
        from sweet_rl.online.policy import TokenPolicy
        from sweet_rl.online.settings import ArcherSettings

        settings = ArcherSettings(
            batch_size=B,
            grad_accum_steps=max(1, arguments.rows // B),
            actor_epochs=1,
            max_new_tokens=NEW_TOKENS,
            max_tokens_per_batch=arguments.max_tokens_per_batch,
        )
        self.draws = arguments.draws
        self.episodes = max(2, arguments.rows // TURNS)
        self.policy = TokenPolicy(policy, tokenizer, settings)
        self.learner = ArcherLearner(settings, self.policy, critic, PlainChat())

    def drawn(self, rows: Sequence[Any], count: int, rng: random.Random) -> list[Any]:
        return [rng.choice(rows) for _ in range(count)]

    def sampling_rows(self, rows: Sequence[Any], rng: random.Random) -> list[Any]:
        """Some whole episodes, each transition as often as a critic phase draws it on average."""
        some = rows[: self.episodes * TURNS]
        return [rng.choice(some) for _ in range(round(len(some) * self.draws))]

    def sample(self, rows: Sequence[Any]) -> None:
        self.policy.sample([row.observation for row in rows], range(len(rows)))

    def critic_step(self, rows: Sequence[Any]) -> None:
        """One step on utterances that are there; they are like those of the rows."""
        from sweet_rl.online.critic import critic_step

        said = [[row.action] for row in reversed(rows)]
        learner = self.learner
        critic_step(learner.critic, learner.target, learner.critic_optimizer, rows, said, learner.steps)

    def actor_step(self, rows: Sequence[Any]) -> None:
        self.learner._train_actor(lambda _: rows)  # `update` would train the critic, too


class Causal(Ours):
    def drawn(self, rows: Sequence[Any], count: int, rng: random.Random) -> list[Any]:
        games = [TURNS * rng.randrange(EPISODES) for _ in range(-(-count // TURNS))]
        return [row for game in games for row in rows[game : game + TURNS]][:count]


class Plain:
    """The published arithmetic, step by step, without an attempt to save anything."""

    def __init__(self, policy: Any, critic: Any, tokenizer: Any, _arguments: argparse.Namespace) -> None:
        import torch

        from sweet_rl.online.critic import copied

        torch.autograd.set_detect_anomaly(True)
        self.policy, self.critic, self.target = policy.eval(), critic, copied(critic)
        self.tokenizer, self.device = tokenizer, next(policy.parameters()).device
        self.critic_optimizer = torch.optim.Adam(critic.parameters(), 1e-5)
        self.lm_optimizer = torch.optim.Adam(policy.parameters(), 1e-5)
        self.everything = [*policy.parameters(), *critic.parameters(), *self.target.parameters()]

    drawn = Ours.drawn

    def sampling_rows(self, _rows: Sequence[Any], _rng: random.Random) -> list[Any]:
        return []

    def sample(self, rows: Sequence[Any]) -> None:
        """Every micro-batch samples for itself."""

    def critic_step(self, rows: Sequence[Any]) -> None:
        import torch

        self._step(rows, self.critic_optimizer, self._critic_loss)
        with torch.no_grad():
            for theirs, mine in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                theirs.copy_(0.9 * theirs + 0.1 * mine)

    def actor_step(self, rows: Sequence[Any]) -> None:
        self._step(rows, self.lm_optimizer, self._actor_loss)

    def _step(self, rows: Sequence[Any], optimizer: Any, loss_of: Any) -> None:
        import torch

        optimizer.zero_grad()
        for start in range(0, len(rows), B):
            loss_of(rows[start : start + B]).backward()
        torch.nn.utils.clip_grad_norm_(self.everything, 1.0)
        optimizer.step()

    def _tokens(self, texts: Sequence[str]) -> Any:
        options = {"padding": True, "truncation": True, "max_length": 512, "return_tensors": "pt"}
        return self.tokenizer(list(texts), **options).to(self.device)

    def _encode(self, owner: Any, texts: Sequence[str]) -> Any:
        batch = self._tokens(texts)
        output = owner.base_lm(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        return output.pooler_output

    def _act(self, texts: Sequence[str]) -> list[str]:
        batch = self._tokens(texts)
        written = self.policy.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            max_new_tokens=NEW_TOKENS,
            do_sample=True,
            pad_token_id=self.tokenizer.eos_token_id,
        )
        new = written[:, batch["input_ids"].shape[1] :]
        return [text.split("\n")[0] for text in self.tokenizer.batch_decode(new, skip_special_tokens=True)]

    def _critic_loss(self, rows: Sequence[Any]) -> Any:
        import torch

        critic, target, encode = self.critic, self.target, self._encode
        seen, nexts = [row.observation for row in rows], [row.next_observation for row in rows]
        done = [row.action for row in rows]
        values = critic(encode(critic, seen), encode(critic, done))
        with torch.no_grad():
            said = self._act(seen)
            tq1, tq2 = target.q(encode(target, seen), encode(target, said))
            tv1, tv2 = target.v(encode(target, nexts))
            encode(target, done)  # the published call encodes an argument in vain
            rewards = torch.tensor([row.reward for row in rows], device=self.device)
            goes_on = torch.tensor([float(not row.done) for row in rows], device=self.device)
        wanted = (rewards + goes_on * 0.95 * tv1, rewards + goes_on * 0.95 * tv2, tq1, tq2)
        return sum(((value - to) ** 2).mean() for value, to in zip(values, wanted, strict=True))

    def _actor_loss(self, rows: Sequence[Any]) -> Any:
        import torch

        seen = [row.observation for row in rows]
        with torch.no_grad():
            said = self._act(seen)
            q1, q2, v1, v2 = self.critic(self._encode(self.critic, seen), self._encode(self.critic, said))
            advantages = torch.minimum(q1, q2) - torch.minimum(v1, v2)
        o, a = self._tokens(seen), self._tokens(said)
        ids = torch.cat([o["input_ids"], a["input_ids"]], 1).long()
        mask = torch.cat([o["attention_mask"], a["attention_mask"]], 1)
        width = o["input_ids"].shape[1]
        likely = self.policy(input_ids=ids, attention_mask=mask).logits.softmax(-1)[:, width - 1 : -1]
        picked = likely.gather(2, ids[:, width:, None])[..., 0]
        return -((picked.log() * a["attention_mask"]).sum(1) * advantages).mean()


SIDES = {"ours": Ours, "causal": Causal, "plain": Plain}


def transcripts(rng: random.Random, episodes: int = EPISODES, turns: int = TURNS) -> list[Any]:
    from sweet_rl.online.replay import Transition

    found = []
    for _ in range(episodes):
        observation = "Questions:\n"
        for turn in range(turns):
            question = " ".join(rng.choices(WORDS, k=rng.randint(4, 8))) + "?"
            following = f"{observation}{question} {rng.choice(['Yes', 'No'])}.\n"
            last = turn == turns - 1
            found.append(Transition(observation, question, -1.0, following, False, last, -1.0 * turns, 0.0))
            observation = following
    return found


def make_models(arguments: argparse.Namespace, *, causal: bool = False) -> tuple[Any, Any, Any]:
    """A policy and a critic of published sizes, and one tokenizer for both: a token for each common word.

    The policy's random weights would write rare tokens. So its last bias points to the common ones, and to a
    newline as often as `--utterance` says; published sampling continues after it. The head is not tied.
    """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2Model, RobertaConfig, RobertaModel

    from sweet_rl.online.critic import DoubleCritic

    tokenizer = make_tokenizer()
    layers, heads, width = (2, 4, 128) if arguments.size == "tiny" else (12, 12, 768)
    gpt2 = {"n_layer": layers, "n_head": heads, "n_embd": width}
    roberta = {"num_hidden_layers": layers, "num_attention_heads": heads}
    roberta |= {"hidden_size": width, "intermediate_size": 4 * width}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    end = tokenizer.eos_token_id
    policy = GPT2LMHeadModel(
        GPT2Config(vocab_size=50257, eos_token_id=end, bos_token_id=end, tie_word_embeddings=False, **gpt2)
    )
    direction = torch.randn(gpt2["n_embd"])
    direction /= direction.norm()
    common = list(range(len(tokenizer)))
    newline = tokenizer("\n")["input_ids"][0]
    head = policy.lm_head.weight
    policy.eval()
    with torch.no_grad():
        policy.transformer.ln_f.bias.copy_(20 * direction)
        head[common] += 0.6 * direction
        head[end] -= 0.6 * direction
        head[newline] -= (head[newline] @ direction) * direction
        others = torch.cat([policy(some[None]).logits[0] for some in torch.tensor(common).split(64)])
        odds = (others.logsumexp(-1) - others[:, newline]).mean() - math.log(arguments.utterance - 1)
        head[newline] += direction * odds / 20
    base = (
        GPT2Model(GPT2Config(vocab_size=50257, **gpt2))
        if causal
        else RobertaModel(
            RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, **roberta)
        )
    )
    return policy.eval().to(device), DoubleCritic(base, tokenizer).to(device), tokenizer


def make_tokenizer() -> Any:
    texts = (row.observation for row in transcripts(random.Random(2)))
    marks = {"eos_token": "<end>", "pad_token": "<end>", "padding_side": "right", "truncation_side": "left"}
    return learned_tokenizer(texts, 1000, ["<end>"], **marks)


if __name__ == "__main__":
    main()
