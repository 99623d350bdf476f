"""Text games as worlds: the real Detective in an interpreter, and Lantern, which is our own."""
