"""Reflect-RL and what it is compared with in two worlds: `sweet-rl demo_reflect`."""
