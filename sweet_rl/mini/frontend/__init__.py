"""For Frontend Design: generated pages, a human who sees them, designers without a model."""
