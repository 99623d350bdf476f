"""Comparing what runs left behind."""

from pathlib import Path

import torch
from torch import Tensor

from sweet_rl.runs.facts import entries_of, runs_below
from sweet_rl.tracking import is_record

DATA = {".jsonl", ".json", ".html", ".parquet", ".safetensors", ".pdf", ".png", ".txt"}


def without_record(folder):
    """Names of the files below a folder, of the kinds that stages write, that no run's record names."""
    runs = runs_below(folder)
    outputs = {Path(run.content["folder"], one["path"]) for run in runs for one in run.content["outputs"]}
    files = [path for path in entries_of(folder) if path.suffix in DATA and not is_record(path)]
    return [path.name for path in files if not outputs & {path, *path.parents}]


def same_state(one, other):
    """Whether two states are equal to the last bit."""
    match one, other:
        case Tensor(), Tensor():
            return one.dtype == other.dtype and torch.equal(one.cpu(), other.cpu())
        case dict(), dict():
            return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
        case ((list() | tuple()), (list() | tuple())):
            return len(one) == len(other) and all(map(same_state, one, other))
    return bool(one == other)
