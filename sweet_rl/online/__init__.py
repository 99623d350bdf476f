"""ArCHer and its relatives: two critics over utterances, a policy over tokens, a replay buffer.

Settings and a world come in; episodes, checkpoints and curves go out. Begin with `archer.py`, then `loop.py` (play, store,
learn) and `learner.py` (one update). `reflect/` is Reflect-RL. `settings` and `replay` load no torch, the others do.
Published arithmetic that is questionable lives in `published.py` alone; everything else computes the repaired one.
"""
