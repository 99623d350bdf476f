"""Texts to learn the taxi from: records, thoughts and lessons."""
