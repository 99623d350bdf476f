"""The shared part of the two text adventures: rules of an episode, scenes, players and prompts."""
