"""Texts to learn exploring from: questions, searches, thoughts and lessons."""
