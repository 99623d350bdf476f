"""Training data for agents that think before they act: tasks, trajectories with reflections, texts.

A teacher (any OpenAI-compatible server, or the embedded one, which is a world's oracle with sentences of our
own) says what it thinks and what to do next; the files that come of it are the published ones.
Nothing is trained here, and no model runs in this process.
"""
