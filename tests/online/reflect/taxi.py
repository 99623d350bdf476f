"""Tiny runs of the taxi: settings, and everything that a run is made of."""

from contextlib import contextmanager

import torch

from sweet_rl.online.reflect.loop import Loop
from sweet_rl.online.reflect.models import Checkpoints, load_policy, load_reflector
from sweet_rl.online.reflect.play import open_playground, sample_texts
from sweet_rl.online.reflect.settings import settings_of
from sweet_rl.online.reflect.trainer import Critic, Trainer, ValueHead
from sweet_rl.online.tiny_models import make_reflect_model


def make_model(folder, **changed):
    shape = {"hidden_size": 32, "layers": 1} | changed
    with open_playground(settings("")) as world:
        return str(make_reflect_model(folder, seed=0, texts=sample_texts(world, 8), **shape))


def settings(model, **changed):
    values = {
        "env": "taxi", "taxi_curriculum": True, "curriculum_index": 0, "max_turns": 4, "model_name": model,
        "reflect_model_name": model, "use_8bit": False, "device": "cpu", "per_device_train_batch_size": 3,
        "per_device_eval_batch_size": 6, "max_steps": 4, "save_steps": 2, "learning_rate": 3e-3,
        "lora_r": 4, "target_modules": "all-linear", "reflect_max_new_tokens": 5, "critic_update_freq": 2,
        "critic_update_iter": 2,
    }  # fmt: skip
    return settings_of(**values | changed)


@contextmanager
def opened(flags, folder=None, watcher=None):
    torch.manual_seed(1)  # of no influence
    with open_playground(flags) as world:
        agent = load_policy(flags, world.labels, lambda _: None)
        critic = None
        if flags.use_critic:
            torch.manual_seed(0)
            head = ValueHead(agent.config.hidden_size, flags.critic_layer_type)
            critic = Critic(agent, head, shared=flags.shared_critic, compat=flags.compat)
        trainer, reflector = Trainer(agent, flags, critic), load_reflector(flags, training=True)
        kept = None if folder is None else Checkpoints(folder)
        yield Loop(flags, trainer, reflector, world, kept, lambda *told: watcher and watcher.log(*told))


class Entries:
    """A watcher that keeps what it is told."""

    def __init__(self):
        self.all = []

    def log(self, done, entry):
        self.all.append(entry)
