"""Training texts for the taxi: records, thoughts and lessons."""
