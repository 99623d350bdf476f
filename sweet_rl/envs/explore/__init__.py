"""AutoExplore: a repository to look through, a question whose answer is one of its files."""
