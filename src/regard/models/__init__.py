"""Model families, one file each, readable beside its paper: compositions of nn and attention; no files, no text."""
