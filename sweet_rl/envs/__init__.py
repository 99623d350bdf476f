"""Worlds: each implements `sweet_rl.contracts.Env`, one fresh object for each episode."""
