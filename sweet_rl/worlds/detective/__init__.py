"""Detective: the text adventure of ArCHer, played from its game file."""
