"""Backend Programming: the agent writes a function for a simulated human who knows the requirements."""
