"""Whole comparisons as clients of the commands, from data to a report page; the demos are the smallest.

A folder of settings comes in; runs, tables and a page go out. Begin with `runner.py`, then a study's `recipe.py` (its
commands) and `results.py` (its tables). Nothing outside this folder imports it.
"""
