"""Trajectories to preference pairs: of whole dialogues, of sampled candidates, of single turns.

Begin with `trajectory_pairs.py` (two dialogues of a task), then the chain of SWEET-RL: `candidates.py` samples turns at
recorded states, `ranking.py` scores them by a critic, `step_pairs.py` makes pairs. `credit` says what each turn of a
dialogue is worth to a critic.
"""
