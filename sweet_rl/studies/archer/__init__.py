"""ArCHer and its rivals on Twenty Questions: `sweet-rl demo_archer`."""
