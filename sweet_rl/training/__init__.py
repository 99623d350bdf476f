"""Preference pairs and dialogues to weights. Modules import torch, but for `settings` and `data`.

Rows come in; a model's folder, checkpoints and numbers go out. Begin with `trainer.py` (an update), then, in the order
in which data flows: `data.py`, `encoding.py` (token ids, masks), `batches.py`, `forward.py` (log-probabilities),
`losses.py`. `trees.py` computes what rows share once; `sharding.py` and `processes.py` are for several GPUs.
"""
