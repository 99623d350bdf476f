"""Fine-tuning on recorded texts: the policy, or with --reflect the reflection model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.cli.stage import given_flags, recorded
from sweet_rl.commands.reflect.flags import Resuming, reflect_stage
from sweet_rl.errors import UsageError
from sweet_rl.online.reflect.settings import ReflectSettings


@recorded("reflect supervised_pretrain", reads=("model_name", "task_file", "load_dir"))
@reflect_stage(mode="train_SPT")
def supervised_pretrain(flags: ReflectSettings, how: Resuming, /) -> None:
    """Train an adapter on texts: the policy on labels, with --reflect the reflection model on reflections.

    A file named sft_reflection is for the reflection model without that flag. Only what stands behind a text's last marker is imitated; --max_steps updates are made. The whole head is
    used, whatever --shrink_head says, or with --pointing_head that one. Runs go to CKPT_PATH/NNN_supervised_pretrain, with setting.yml and
    checkpoint-N/ (adapter, tokenizer, and what --resume needs to continue exactly).

    The policy, then the reflection model:
    sweet-rl reflect supervised_pretrain --task_file data/sft_policy.jsonl --max_steps 2000
    sweet-rl reflect supervised_pretrain --task_file data/sft_reflection.jsonl --max_steps 2000
    """
    from dataclasses import replace

    from sweet_rl.online.reflect import runs
    from sweet_rl.online.reflect.sft import check_kind, read_texts

    tracking.logs_to(how.destination())
    old = Path(how.resume).expanduser() if how.resume else None
    settings = runs.with_saved(flags, flags.load_dir)
    if old:
        settings = runs.continued(old, settings, given_flags.get() - {"shrink_head"})
    settings = replace(settings, shrink_head=False)
    if settings.load_dir is not None:
        runs.checkpoint_folder(settings.load_dir)
    runs.check_head(settings)
    file = settings.task_file
    if file is None:
        raise UsageError("--task_file, a .jsonl file of training texts, is needed.")
    settings = replace(settings, reflect=settings.reflect or Path(file).name.startswith("sft_reflection"))
    texts = read_texts(file)
    if not settings.published:
        check_kind(texts, file, reflect=settings.reflect)

    from sweet_rl.cli.progress import progress, silence_libraries

    silence_libraries()
    from sweet_rl.commands.reflect.training_run import TrainingRun
    from sweet_rl.online import distributed
    from sweet_rl.online.distributed import broadcast_parameters
    from sweet_rl.online.reflect.models import Checkpoints, load_policy
    from sweet_rl.online.reflect.sft import FineTuning

    with distributed.process_group(), TrainingRun("supervised_pretrain", settings, old) as run:

        def tell(done: int, numbers: Any) -> None:
            tracking.logs(done, numbers)
            bar.set_postfix_str(f"loss {numbers['loss']:.4g}", refresh=False)
            bar.update(done - bar.n)

        with run.starting(lambda: texts):
            settings = run.settings
            agent = load_policy(replace(settings, temperature=1.0), (), run.say)  # which is one of sampling
            broadcast_parameters(agent.modules)
            examples = _examples(texts, agent, settings, run.say)
            checkpoints = Checkpoints(run.folder, settings.save_total_limit)
            if run.main:
                checkpoints.made_from = runs.made_from(settings, texts)
            training = FineTuning(agent, examples, settings, checkpoints, tell, run.say)
            done = training.load(distributed.from_main(lambda: checkpoints.newest(run.say)))
        with (
            run.announce(done, "update"),
            progress(settings.max_steps, done, unit="update", quiet=how.quiet or not run.main) as bar,
        ):
            training.run(done)
        run.finish(done, "update", "model")


def _examples(texts: Sequence[str], agent: Any, settings: ReflectSettings, say: Any) -> list[Any]:
    """The texts as tokens; a published run passes over those without a marker."""
    from sweet_rl.online.reflect.pointing import PointingAgent, pointed
    from sweet_rl.online.reflect.sft import encode, encode_published

    if isinstance(agent, PointingAgent):
        return pointed(agent, texts, str(settings.task_file), settings.max_seq_length)
    positions = getattr(agent.config, "max_position_embeddings", None)
    room = min(settings.max_seq_length, positions or settings.max_seq_length)
    if not settings.published:
        try:
            return [encode(agent.tokenizer, text, reflect=settings.reflect, room=room) for text in texts]
        except ValueError as error:
            raise UsageError(f"--task_file {settings.task_file!r}: in a text {error}.") from error
    found = [encode_published(agent.tokenizer, text, reflect=settings.reflect, room=room) for text in texts]
    kept = [example for example in found if example is not None]
    if len(kept) < len(found):
        say(f"{len(found) - len(kept)} of {len(found)} texts have no marker; nothing is learnt from them.")
    if not kept:
        raise UsageError(
            f"--task_file {settings.task_file!r}: no text has the marker (is --reflect missing?)."
        )
    return kept
