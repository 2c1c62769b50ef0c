"""Models behind HTTP: a page for people, and interfaces that programs already speak."""
