"""For Backend Programming: generated tasks, a human who knows the function, players, pre-training texts."""
