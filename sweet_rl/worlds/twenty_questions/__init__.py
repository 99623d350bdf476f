"""Twenty Questions: find out the object by questions that are answered with yes or no."""
