"""A critic with a regression head: the ablation that SWEET-RL's own critic is compared with.

Published behaviour: docs/published/sweet_rl.md#reward-models.
"""

from __future__ import annotations

from sweet_rl.training import models
from sweet_rl.training.batches import ValueCollator
from sweet_rl.training.dpo import pair_rows
from sweet_rl.training.engines import half_weights
from sweet_rl.training.fitting import Say, begin, check_sizes, fit, once, trainable
from sweet_rl.training.forward import CriticObjective
from sweet_rl.training.settings import TrainSettings


def train(settings: TrainSettings, say: Say) -> None:
    """Train, and save a sequence classifier with one label and its tokenizer to `save_path`.

    Raises:
        SweetRLError: data, models or flags are wrong, or the loss is not a number.
    """
    say = once(say)
    rows = pair_rows(models.load_tokenizers(settings.model), settings, say)
    run = begin("train_reward_model", settings, rows, say, share=False)
    model = models.load_critic(settings.model.pretrain, settings.model, half=half_weights(settings))
    check_sizes(model, rows.all, settings)
    model.config.get_text_config().pad_token_id = rows.pad_id  # without one, the classifier refuses batches
    model.config.critic_value = "mean" if settings.published else "last"
    fit(
        run,
        trainable(model, settings),
        collator=ValueCollator(rows.pad_id, rows.vision),
        objective=lambda bare: CriticObjective(bare, settings.loss, mean=settings.published),
    )
