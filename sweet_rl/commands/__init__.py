"""The stages: one function a module, whose parameters are its flags (`sweet_rl.cli` lists them).

A stage takes settings and files, puts parts together, prints, and writes files with a record; what it does lives in
the packages below. Begin with `simulate_interactions`: an agent and a human talk, and rows are written.
"""
