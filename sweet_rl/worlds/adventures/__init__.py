"""What the two text adventures share: the rules of an episode, scenes, players and prompts."""
