"""Other people's tools: worlds that they play and train on, logs of theirs, credit and pairs for their trainers.

`worlds` is what all share that play: a world, opened for episodes whose turns come from elsewhere. Each other module is of
one tool, and imports its package; none is imported before it is asked for (docs/integrations.md).
"""
