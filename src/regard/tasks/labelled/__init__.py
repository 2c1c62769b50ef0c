"""What the tasks of labelled examples share."""
