"""Reflect-RL: a frozen model that reflects beside a policy that learns online.

Import what you need from its module: `settings`, `runs` and `play` load no torch, the others do. Where the published
arithmetic is questionable the right one is computed; `compat="published"` in the settings asks for the published one.
"""
