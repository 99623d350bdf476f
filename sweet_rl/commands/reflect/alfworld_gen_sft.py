"""ALFWorld's records as training texts.

Published behaviour: docs/published/reflect_rl.md#data-of-dangeroustaxi-and-alfworld.
"""

from __future__ import annotations

from sweet_rl.commands.recording import recorded


@recorded("reflect alfworld_gen_sft", reads=("task_file",))
def alfworld_gen_sft(
    *,
    task_file: str = "data/alfworld/data_reflection.json",
    output: str | None = None,
    containing: str = "pick_and_place_simple-Tomato-None-Microwave",
    label: str = "taken",
    overwrite: bool = False,
    strict: bool = False,
) -> None:
    """Write sft.jsonl, sft_reflection.jsonl and sft_policy.jsonl from records.

    Args:
        task_file: records, as alfworld_reflection writes them.
        output: folder of the texts; default that of task_file.
        containing: what a record's problem must contain; "" for all.
        label: what a policy is trained to do: taken, the action that the mostly random player took
            (published), or best, the planner's.
        overwrite: replace what is there.
        strict: the published name of the second file, sft_reflectioner.jsonl.
    """
    from pathlib import Path

    from sweet_rl.errors import UsageError
    from sweet_rl.teaching.household_lessons import household_texts
    from sweet_rl.teaching.texts import LABELS, read_list

    if label not in LABELS:
        raise UsageError(f"--label must be {' or '.join(LABELS)}, got {label!r}.")
    source = Path(task_file)
    texts = household_texts(read_list(source), containing=containing, label=label, strict=strict)
    folder = Path(output) if output else source.parent
    texts.write(folder, overwrite=overwrite)
    print("\n".join(texts.summary(folder)))
