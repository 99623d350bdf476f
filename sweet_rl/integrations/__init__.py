"""Every world, with its human, inside the tools that other people train and measure with.

What they share: `choice` says which world, `opened` opens it, `shared` for many at once, `stepped` plays one
episode of it a turn at a time, `foreign` makes trajectories of what other tools recorded. Each other module
is of one tool, and imports its package; none is imported before it is asked for (docs/integrations).
"""
