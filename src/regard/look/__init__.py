"""Pictures of what a model attended to and of how its training went."""
