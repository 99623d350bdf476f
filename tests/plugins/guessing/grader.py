"""A grader for any world: short dialogues are good."""

from sweet_rl.types import Score


class Brevity:
    """1 for a single turn, 1/2 for two, and so on."""

    def grade(self, trajectories):
        for trajectory in trajectories:
            turns = sum(message.role == "assistant" for message in trajectory.dialogue_history)
            yield Score(1 / turns if turns else None, note="" if turns else "nobody spoke")
