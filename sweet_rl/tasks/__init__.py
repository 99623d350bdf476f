"""Where tasks come from: ColBench files and hub, and the embedded mini benchmark."""

from sweet_rl.tasks.load import load_tasks

__all__ = ["load_tasks"]
