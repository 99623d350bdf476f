"""The shared part of question games: an oracle answers, and an agent asks until it can name the answer."""
