"""Several recipes on the same data, in one table and one picture."""
