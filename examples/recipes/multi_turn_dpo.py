"""Multi-turn DPO in one file: trains a policy on preference pairs of whole dialogues.

    python examples/recipes/multi_turn_dpo.py PAIRS.jsonl OUT

has the same losses and weights as `sweet-rl train_dpo --pretrain embedded --dataset PAIRS.jsonl --save_path OUT --train_batch_size 8 --max_len 8192 --eval_fraction 0`.
`sweet-rl evaluate_code DIALOGUES --k 3 --ground_truth_preference_path PAIRS.jsonl` makes pairs.

A dialogue's log-probability is that of all tokens that the agent wrote, given everything before them (Rafailov et al. 2023,
arXiv 2305.18290, equation 7, over the turns of an agent; Zhou et al. 2025, arXiv 2503.15478).
"""

import sys
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from sweet_rl.training.data import read_pairs
from sweet_rl.training.encoding import Encoded, Side, TurnEncoder
from sweet_rl.training.models import load_model, load_tokenizers, save_whole
from sweet_rl.training.settings import DataSettings, ModelSettings
from sweet_rl.training.steps import StepSampler, history_groups, rate_factor

BETA, LEARNING_RATE, WARMUP, EPOCHS, PAIRS_PER_UPDATE, MAX_NORM = 0.1, 1e-5, 0.03, 1, 8, 1.0
MAX_LEN, SEED = 8192, 42


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


def loss_of(model, pair: Encoded, reference: Tensor) -> Tensor:
    """-log sigma(beta h): h is how much more than the reference the policy prefers the chosen dialogue."""
    chosen, rejected = (logprob(model, side) for side in pair.sides)
    h = (chosen - rejected) - (reference[0] - reference[1])
    return -logsigmoid(BETA * h)


def batches(pairs: list[Encoded], epoch: int):
    """Pairs in a drawn order, similar lengths together; each with its share of the mean."""
    order = StepSampler(
        [pair.length for pair in pairs],
        packs=lambda rows: [rows],  # an update's pairs at once; the command packs them as memory allows
        groups=history_groups(pairs),
        train_batch=PAIRS_PER_UPDATE,
        epochs=EPOCHS,
        seed=SEED,
    )
    order.epoch = epoch
    for batch in order:
        yield [(pairs[row], share) for row, share in batch]


def train(dataset: str, out: str, pretrain: str = "embedded", say=print) -> list[float]:
    """Learn from a file of pairs; the losses, one for each update."""
    torch.manual_seed(SEED)
    model_settings, data = ModelSettings(pretrain=pretrain), DataSettings(dataset=dataset, max_len=MAX_LEN)
    tokenizer, model = load_tokenizers(model_settings), load_model(pretrain, model_settings)
    pairs, report = TurnEncoder(tokenizer, data).encode(read_pairs(data, seed=SEED)[0])
    for line in report.lines(data.max_len):
        say(line)

    with torch.no_grad():  # before the first update the policy is the reference
        references = {
            pair.index: torch.stack([logprob(model, side) for side in pair.sides]) for pair in pairs
        }
    updates = EPOCHS * -(-len(pairs) // PAIRS_PER_UPDATE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0)
    rate = rate_factor("cosine_with_floor", steps=updates, warmup_ratio=WARMUP, published=False)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    losses = []
    for epoch in range(EPOCHS):
        for batch in batches(pairs, epoch):
            loss = sum(loss_of(model, pair, references[pair.index]) * share for pair, share in batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            say(f"update {len(losses)} of {updates}: loss {losses[-1]:.4f}")
    save_whole(model, tokenizer, Path(out))
    return losses


if __name__ == "__main__":
    train(*sys.argv[1:])
