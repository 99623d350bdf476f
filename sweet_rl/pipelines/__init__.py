"""Pipelines: stages that follow each other, given by a YAML file or from Python, each run once.

`reading` takes files apart, `building` makes steps of them, `running` finds what is done and runs the rest; `needs`
tells beforehand what it will take. What is done is read from the records that the stages keep (`sweet_rl.runs`):
there is no other bookkeeping.
"""
