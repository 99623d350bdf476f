"""Training texts for exploration: questions, searches, thoughts and lessons."""
