"""SWEET-RL in one file: a critic that sees the hidden solution learns which dialogue was better, and gives the policy credit for each turn.

    python examples/recipes/sweet.py OUT

plays with the embedded agent on the mini benchmark. It has the same pairs, losses and weights as these commands (both trainings with
`--train_batch_size 8 --max_len 8192 --eval_fraction 0`):

    sweet-rl train_dpo --pretrain embedded --dataset OUT/dialogue_pairs.jsonl --mean_log_prob --learning_rate 3e-4 --save_path OUT/critic
    sweet-rl sample_best_of_n OUT/dialogues.jsonl sampled.jsonl embedded --best_of_n 3 --max_tokens 48
    sweet-rl rank_best_of_n sampled.jsonl ranked.jsonl OUT/critic
    sweet-rl generate_random_pairs_from_ranks ranked.jsonl OUT/turn_pairs.jsonl --num_pairs 2
    sweet-rl train_dpo --pretrain embedded --dataset OUT/turn_pairs.jsonl --nll_loss_coef 0.3 --learning_rate 2e-4 --save_path OUT/policy

Zhou et al. 2025, arXiv 2503.15478. The advantage of a turn after a history is the mean over its tokens of log critic(turn | solution,
history) - log reference(turn | history). A Bradley-Terry loss over whole dialogues fits it; then DPO prefers a turn's better candidates
to its worse ones, for a policy that never sees the solution.
"""

import asyncio
import random
import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

import sweet_rl
from sweet_rl.chat import Span, load_tokenizer
from sweet_rl.policies.transformers import TransformersPolicy
from sweet_rl.preferences import candidates
from sweet_rl.preferences.pairs import draw_pairs, pair_row, with_solution
from sweet_rl.preferences.ranking import encoding_by, end_token_of, own_tokens
from sweet_rl.records import replace_rows, trajectory_to_row
from sweet_rl.training.data import read_pairs
from sweet_rl.training.encoding import Branch, Encoded, Side, TurnEncoder
from sweet_rl.training.models import load_model, save_whole
from sweet_rl.training.settings import DataSettings, ModelSettings
from sweet_rl.training.steps import StepSampler, history_groups, rate_factor

AGENT, TASKS, REPEATS, CANDIDATES, PAIRS_OF_A_TURN, MAX_TOKENS = "embedded", 12, 4, 3, 2, 48
BETA, PAIRS_PER_UPDATE, MAX_LEN, WARMUP, MAX_NORM, SEED = 0.1, 8, 8192, 0.03, 1.0, 42
CRITIC = {"mean": True, "nll": 0.0, "learning_rate": 3e-4}
POLICY = {"mean": False, "nll": 0.3, "learning_rate": 2e-4}


async def play(out: Path, tokenizer) -> list[candidates.Candidates]:
    """Dialogues, several of each task, and other turns that the agent might have taken at each place of them."""
    policy = TransformersPolicy(AGENT, max_new_tokens=MAX_TOKENS, max_batch=256)
    made = {"agent": policy, "agent_prompt": "llm_agent_mini_prompt", "options": {"max_turns": 6}}
    dialogues = await sweet_rl.asimulate("code", "mini:train", num_tasks=TASKS, repeats=REPEATS, **made)
    dialogues = await sweet_rl.agrade(dialogues)  # by hidden tests
    rows = [trajectory_to_row(dialogue) for dialogue in dialogues]
    replace_rows(out / "dialogues.jsonl", rows)
    replace_rows(out / "dialogue_pairs.jsonl", sweet_rl.pairs(dialogues, with_ground_truth=True))
    turns, sampled = candidates.offline_turns(list(enumerate(rows, start=1))), {}
    facts = {"tokenizer": encoding_by(tokenizer).digest, "end_token": end_token_of(tokenizer), "settings": {}}

    async def keep(turn, completions, failure):
        sampled[turn.key] = candidates.sampled_row(turn, completions, failure=failure, **facts)

    await candidates.sample_turns(turns, policy, keep, n=CANDIDATES, seed=0)
    await policy.close()
    return candidates.candidates_from_rows(list(enumerate((sampled[turn.key] for turn in turns), start=1)))


def logprob(model, side: Side) -> Tensor:
    """log pi(what the agent said | all before it), summed over its tokens: a number with a gradient."""
    total = torch.zeros(())
    for branch in side.branches:  # one sequence of ids, or one for each turn whose prompt was rendered anew
        ids_T = torch.tensor(branch.ids)
        logits_TV = model(ids_T[None]).logits[0]
        for start, end in branch.scored:  # logits at t - 1 are about the token at t
            logps_SV = logits_TV[start - 1 : end - 1].float().log_softmax(-1)
            total = total + logps_SV.gather(-1, ids_T[start:end, None]).sum()
    return total


def loss_of(model, pair: Encoded, reference: Tensor, *, mean: bool, nll: float) -> Tensor:
    """-log sigma(beta h): h is how much more than the reference the model prefers the chosen side, by sums or means over tokens."""
    logps = [logprob(model, side) for side in pair.sides]
    tokens = [side.tokens for side in pair.sides]
    gains = [(logp - old) / (n if mean else 1) for logp, old, n in zip(logps, reference, tokens, strict=True)]
    return -logsigmoid(BETA * (gains[0] - gains[1])) - nll * logps[0] / tokens[0]


def learn(pairs_path: Path, out: Path, tokenizer, say, *, learning_rate: float, **loss) -> list[float]:
    """Preference training of the agent on a file of pairs, once over it; the losses, one for each update."""
    torch.manual_seed(SEED)
    model, data = load_model(AGENT, ModelSettings()), DataSettings(dataset=str(pairs_path), max_len=MAX_LEN)
    pairs, _ = TurnEncoder(tokenizer, data).encode(read_pairs(data, seed=SEED)[0])
    with torch.no_grad():  # before the first update the model is its own reference
        before = {pair.index: torch.stack([logprob(model, side) for side in pair.sides]) for pair in pairs}
    batches = StepSampler(
        [pair.length for pair in pairs],
        packs=lambda rows: [rows],  # an update's pairs at once; the command packs them as memory allows
        groups=history_groups(pairs),
        train_batch=PAIRS_PER_UPDATE,
        seed=SEED,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0)
    rate = rate_factor("cosine_with_floor", steps=batches.steps, warmup_ratio=WARMUP, published=False)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    losses = []
    for batch in batches:
        scaled = ((pairs[row], share) for row, share in batch)  # each with its share of the mean
        total = sum(loss_of(model, pair, before[pair.index], **loss) * share for pair, share in scaled)
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(total.item())
        say(f"{out.name}, update {len(losses)} of {batches.steps}: loss {losses[-1]:.4f}")
    save_whole(model, tokenizer, out)
    return losses


@torch.no_grad()
def scores(turn: candidates.Candidates, critic, encoding) -> tuple[float, ...]:
    """The candidates' advantages: under the critic, which reads the solution first, minus under the agent that sampled them."""
    context = encoding.encode(with_solution(turn.prompt, turn.ground_truth))
    sequences = [(*context, *own_tokens(candidate, encoding, True)) for candidate in turn.candidates]
    sides = [Side((Branch(ids, (Span(len(context), len(ids)),)),)) for ids in sequences]
    said = zip(sides, turn.candidates, strict=True)
    return tuple(logprob(critic, side).item() / side.tokens - one.mean for side, one in said)


def train(out: str, say=print) -> tuple[list[float], list[float]]:
    """The losses of the critic and of the policy."""
    folder, tokenizer = Path(out), load_tokenizer(AGENT)
    folder.mkdir(parents=True, exist_ok=True)
    turns = asyncio.run(play(folder, tokenizer))
    of_critic = learn(folder / "dialogue_pairs.jsonl", folder / "critic", tokenizer, say, **CRITIC)
    critic, encoding = load_model(str(folder / "critic"), ModelSettings()), encoding_by(tokenizer)
    rng, rows = random.Random(SEED), []
    for turn in turns:
        ranked = replace(turn, scores=scores(turn, critic, encoding))
        drawn = draw_pairs(ranked, PAIRS_OF_A_TURN, rng)
        rows += [pair_row(turn, pair, end_token=turn.end_token, no_prompt=False) for pair in drawn]
    rng.shuffle(rows)
    replace_rows(folder / "turn_pairs.jsonl", rows)
    return of_critic, learn(folder / "turn_pairs.jsonl", folder / "policy", tokenizer, say, **POLICY)


if __name__ == "__main__":
    train(*sys.argv[1:])
