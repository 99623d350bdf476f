"""Training texts for household games."""
