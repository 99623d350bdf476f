"""The stages of Reflect-RL: `sweet-rl reflect NAME`."""
