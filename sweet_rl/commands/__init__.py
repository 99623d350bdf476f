"""The stages: one function a module, its parameters are the flags (`sweet_rl.cli` lists them).

A stage puts parts together, prints, and nothing else; what it does lives in the rooms below.
"""
