"""Twenty Questions: find out the object by questions that are answered with yes or no."""

from sweet_rl.worlds.twenty_questions.world import TEN_WORDS, WORLD

__all__ = ["TEN_WORDS", "WORLD"]
