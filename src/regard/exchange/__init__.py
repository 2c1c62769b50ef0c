"""Models that travel: to and from the folders and files of other tools."""
