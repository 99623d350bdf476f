"""Whole recipes made of the rooms below: `archer` holds ArCHer, Online CHAI, Online Filtered BC and BC."""
