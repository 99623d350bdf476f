"""The packaged oracle of Guess My City: a table of cities, and what questions ask of it."""
