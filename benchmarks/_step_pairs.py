"""Data for the training benchmarks: real step pairs of the mini worlds, with histories as long as wanted.

The embedded agent plays, other candidates are drawn for its turns, and pairs of them are taken at random:
which one is preferred does not change what training costs. Histories get longer by earlier dialogues in front
of them. A tokenizer of words, as large models have, reads them.
"""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _measure import learned_tokenizer, stage

from sweet_rl.mini.embedded_agent import BEGIN, CHAT_TEMPLATE, END_OF_HEADER, END_OF_TEXT, END_OF_TURN, HEADER
from sweet_rl.types import ANSWER_MARKER
from sweet_rl.users.server import start_server

Turn = dict[str, Any]
"""One turn: `prompt`, and the different `candidates` for it, each closed by the end token."""


def mini_turns(folder: Path, tasks: int = 48) -> list[Turn]:
    """Turns of the embedded agent with 16 candidates each; made once in the folder."""
    sampled = folder / "sampled.jsonl"
    if not sampled.exists():
        tasks_file, offline = folder / "tasks.jsonl", folder / "offline.jsonl"
        stage("generate_tasks", tasks_file, source="mini:train", num_tasks=tasks, overwrite=True)
        with start_server() as server:
            stage(
                "simulate_interactions",
                *(tasks_file, offline),
                agent_model="embedded",
                agent_prompt_path="llm_agent_mini_prompt",
                env_model="scripted",
                env_base_url=server.base_url,
                max_steps=6,
                quiet=True,
                overwrite=True,
            )
        stage("evaluate_code", offline, quiet=True)
        stage("sample_best_of_n", offline, sampled, "embedded", data_fraction=1, best_of_n=16, quiet=True)
    rows = [json.loads(line) for line in sampled.read_text().splitlines()]
    return [
        {
            "prompt": row["input"],
            "candidates": [text + END_OF_TURN for text in dict.fromkeys(row["additional_outputs"])],
        }
        for row in rows
    ]


def colbench_turns(folder: Path, tasks: str, count: int = 60) -> list[Turn]:
    """Turns of dialogues about ColBench tasks, as long as they are.

    A scripted agent asks. Candidates of a turn are the questions of other dialogues, those of the last turn
    the reference solutions of other tasks: they are as long as what an agent says there.
    """
    dialogues = folder / "colbench.jsonl"
    if not dialogues.exists():
        stage(
            "simulate_interactions",
            *(tasks, dialogues),
            num_tasks=count,
            quiet=True,
            agent_model="questioner",
            num_questions=6,
            env_model="scripted",
        )
    rows = [json.loads(line) for line in dialogues.read_text().splitlines()]
    played = [[turn for turn in row["dialogue_history"] if turn["role"] == "assistant"] for row in rows]
    questions = sorted({turn["output"] for turns in played for turn in turns[:-1]})
    answers = [f"{ANSWER_MARKER}\n{row['task']['ground_truth']}" for row in rows]
    rng = random.Random(0)
    return [
        {
            "prompt": turn["input"],
            "candidates": [
                text + END_OF_TURN for text in rng.sample(answers if turn is turns[-1] else questions, 16)
            ],
        }
        for turns in played
        for turn in turns
    ]


def lengthened(turns: list[Turn], tokenizer: Any, history: int) -> Iterator[Turn]:
    """The same turns after earlier dialogues, with prompts of `history` tokens; 0 leaves them as they are."""
    earlier = itertools.cycle([turn["prompt"].removeprefix(BEGIN) for turn in turns])
    for turn in turns:
        own = turn["prompt"].removeprefix(BEGIN)
        before = ""
        while (
            history and len(tokenizer(BEGIN + before + own, add_special_tokens=False)["input_ids"]) < history
        ):
            before += next(earlier)
        ids = tokenizer(BEGIN + before + own, add_special_tokens=False)["input_ids"]
        yield turn | {"prompt": tokenizer.decode(ids[-history:])}  # a history of 0 keeps all


def pairs_of(turn: Turn, count: int, rng: random.Random) -> list[dict[str, str]]:
    both = list(itertools.permutations(turn["candidates"], 2))
    return [
        {"prompt": turn["prompt"], "chosen": chosen, "rejected": rejected}
        for chosen, rejected in rng.sample(both, min(count, len(both)))
    ]


def word_tokenizer(texts: list[str]) -> Any:
    special = [BEGIN, END_OF_TEXT, HEADER, END_OF_HEADER, END_OF_TURN]
    marks = {"bos_token": BEGIN, "eos_token": END_OF_TURN, "pad_token": END_OF_TEXT}
    tokenizer = learned_tokenizer(texts, 4000, special, **marks)
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def save_model(
    folder: Path, tokenizer: Any, *, hidden: int = 256, layers: int = 4, vocabulary: int = 32_000
) -> None:
    """A Llama with random weights; its vocabulary is larger than the tokenizer's, as large models' are."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=8 * hidden // 3 // 8 * 8,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 64,
        max_position_embeddings=16_384,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


TEMPLATE = (
    "{{ bos_token }}{% for m in messages %} <{{ m['role'] }}> {{ m['content'] }} <end>{% endfor %}"
    "{% if add_generation_prompt %} <assistant>{% endif %}"
)
SPECIAL = ["<begin>", "<end>", "<system>", "<user>", "<assistant>", "<unknown>"]


def tokenizer_of_words(vocabulary: int) -> Any:
    """The special tokens and the words w0, w1, ... with a chat template; `<end>` has the id 1."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [*SPECIAL, *(f"w{number}" for number in range(vocabulary - len(SPECIAL)))]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, "<unknown>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Sequence([])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<begin>", eos_token="<end>", unk_token="<unknown>"
    )
    fast.chat_template = TEMPLATE
    return fast


def train_by_trl(
    model: Any, rows: Any, tokenizer: Any, pairs: int, at_once: bool, beside: dict[str, Any], **how: Any
) -> None:
    """TRL's DPOTrainer in steps of so many pairs, all of them at once or one by one; `beside` and `how` are its own."""
    from trl import DPOConfig, DPOTrainer

    size = pairs if at_once else 1
    how |= {"per_device_train_batch_size": size, "gradient_accumulation_steps": pairs // size}
    how |= {"num_train_epochs": 1, "precompute_ref_log_probs": True, "learning_rate": 1e-5, "report_to": []}
    how |= {"save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
    with tempfile.TemporaryDirectory() as folder:
        given = {"args": DPOConfig(output_dir=folder, **how), "train_dataset": rows, **beside}
        DPOTrainer(model=model, processing_class=tokenizer, **given).train()
