"""Trajectories to preference pairs: of whole dialogues, of sampled candidates, of single turns.

Begin with `pairs.py`: two dialogues of a task. Then the chain of SWEET-RL: `candidates.py` samples turns at recorded states,
`ranking.py` scores them by a critic, `pairs.py` draws from them. the module of credits says what each turn is worth to a critic.
"""
