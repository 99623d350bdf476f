"""Preference pairs and dialogues to weights. Modules import torch, but for `settings`, `data` and `checkpoints`.

Rows come in; a model's folder, checkpoints and numbers go out. Begin with `trainer.py` (an update), then, in the order
in which data flows: `data.py`, `encoding.py` (token ids, masks), `batches.py` (tensors; what rows share, once), `forward.py`
(log-probabilities), `losses.py`. `steps.py` divides rows into updates and micro-batches; `processes.py` is for several GPUs.
"""
