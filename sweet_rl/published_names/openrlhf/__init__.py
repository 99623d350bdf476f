"""The trainer that the published README launches: `openrlhf.cli.train_dpo` is `sweet_rl.openrlhf.train_dpo`."""
