"""Translation: one text into another."""
