"""Everything that stands in for a model, a download or a person. The rest of the library knows it by name only."""
