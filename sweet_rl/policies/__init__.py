"""Who acts: transformers in process, vLLM, any OpenAI-compatible server, scripted agents.

Import a policy from its own module: each needs other packages, and none of them is loaded before it is used.
"""
