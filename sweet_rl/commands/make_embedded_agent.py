"""The embedded agent, or a sister of it with another seed, from nothing."""

from __future__ import annotations

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError

_RULES = {"mini": "llm_agent_mini_prompt", "twenty_questions": "llm_agent_twenty_questions_prompt"}
"""The prompt that stands before what an agent reads, and before its games."""


@recorded("make_embedded_agent")
def make_embedded_agent(
    output_dir: str,
    *,
    world: str = "mini",
    seed: int = 0,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Train an embedded agent from nothing: a tiny Llama that can play the mini worlds, or Twenty Questions.

    For mini it reads drills, then dialogues of a noisy teacher with the scripted human; nothing it reads
    shows which extras are usual (docs/mini.md). Takes ten minutes on a CPU. The packaged agent is the one of
    seed 0. For twenty_questions it reads games of a scripted asker of middling skill about ten words: a
    minute or two.

    Args:
        output_dir: folder for the model and its tokenizer.
        world: mini or twenty_questions.
        seed: another seed gives other weights, taught by other dialogues.
        overwrite: write into a folder that holds a model already.
        quiet: no progress bar.
    """
    if world not in _RULES:
        raise UsageError(f"--world must be {' or '.join(_RULES)}, got {world!r}.")
    from pathlib import Path

    from sweet_rl.prompts import load_prompt

    folder = Path(output_dir)
    if (folder / "config.json").exists() and not overwrite:
        raise UsageError(f"{output_dir!r} holds a model already; pass --overwrite or choose another folder.")
    from sweet_rl.tiny_models.warm_start import make_agent

    tracking.writes(folder, folder=True)
    make_agent(folder, load_prompt(_RULES[world]), seed=seed, school=world, quiet=quiet)
    print(f"The agent is in {folder}")
