"""Whole recipes that close the loop between playing and learning."""
