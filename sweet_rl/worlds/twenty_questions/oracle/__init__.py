"""The packaged oracle of Twenty Questions: a table of objects, and a grammar of questions."""
