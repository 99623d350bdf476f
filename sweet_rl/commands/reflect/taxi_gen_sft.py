"""DangerousTaxi's records as training texts.

Published behaviour: docs/published/reflect_rl.md#data-of-dangeroustaxi-and-alfworld.
"""

from __future__ import annotations

from sweet_rl.commands.recording import recorded


@recorded("reflect taxi_gen_sft", reads=("task_file",))
def taxi_gen_sft(
    *,
    task_file: str = "data/taxi/data_reflection.json",
    output: str | None = None,
    label: str = "taken",
    with_prompt: bool = False,
    overwrite: bool = False,
    strict: bool = False,
) -> None:
    """Write sft.jsonl, sft_reflection.jsonl and sft_policy.jsonl from records.

    The texts are exactly what games and evaluation show. The published ones are not (--strict): they lack the
    game instruction and the actions done before, and have other line breaks.

    Args:
        task_file: records, as taxi_reflection writes them.
        output: folder of the texts; default that of task_file.
        label: what a policy is trained to do: taken, the action that the mostly random driver took
            (published), or best, the oracle's.
        with_prompt: leave the rules in states that have them, for games that are played with --with_prompt.
        overwrite: replace what is there.
        strict: the published texts.
    """
    from pathlib import Path

    from sweet_rl.errors import UsageError
    from sweet_rl.teaching.taxi_lessons import taxi_texts
    from sweet_rl.teaching.texts import LABELS, read_list

    if label not in LABELS:
        raise UsageError(f"--label must be {' or '.join(LABELS)}, got {label!r}.")
    source = Path(task_file)
    texts = taxi_texts(read_list(source), label=label, keep_rules=with_prompt, strict=strict)
    folder = Path(output) if output else source.parent
    texts.write(folder, overwrite=overwrite)
    print("\n".join(texts.summary(folder)))
