"""Everything that stands in for a model, a download or a person. The rest of the library knows it by name only.

A world's tasks and questions come in; tasks, replies and turns go out, drawn from a seed. Begin with `backend/human.py`,
who answers as a person would. `embedded_agent.py` makes the tiny agent in `agent/` from nothing.
"""
