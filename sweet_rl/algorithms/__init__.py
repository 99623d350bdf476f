"""Complete training algorithms: `archer` has ArCHer, Online CHAI, Online Filtered BC and BC."""
