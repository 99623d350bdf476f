"""The packaged oracle of Guess My City: a table of cities, and the rules for questions about it."""
