"""Pipelines: stages that follow each other, given by a YAML file or from Python, each run once.

`pipeline` makes steps of files, `running` finds what is done and runs the rest, `preflight` tells beforehand what it will
take. What is done is read from the records that stages keep (`sweet_rl.runs`): there is no other bookkeeping.
"""
