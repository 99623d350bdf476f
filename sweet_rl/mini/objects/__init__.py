"""Twenty Questions without a model: who answers, and who asks."""
