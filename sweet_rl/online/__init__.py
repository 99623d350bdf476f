"""ArCHer and its relatives: two critics over utterances, a policy over tokens, a replay buffer.

Import what you need from its module: `settings` and `replay` load no torch, the others do. Published
arithmetic that is questionable lives in `published` alone; everything else computes the repaired one.
"""
