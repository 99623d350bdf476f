"""Frontend Design: the agent writes a web page for a simulated human who sees the target page."""
