"""The embedded agent: a tiny Llama that can play the mini worlds, so that the pipeline runs on a laptop.

It lies in this package as a folder that transformers and vLLM load like any other;
`sweet-rl make_embedded_agent` makes it, or one with another seed, from nothing (docs/mini.md).
"""
