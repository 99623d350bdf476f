"""Training data for agents that think before they act: a teacher says what it thinks, and the published files are made of it."""
