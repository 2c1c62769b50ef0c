"""Training: knows only the Task protocol; loses nothing, whatever is killed and whenever."""
