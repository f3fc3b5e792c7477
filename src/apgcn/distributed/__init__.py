"""One training on several machines: rows of a graph lie on ranks, which exchange what they hear from each other."""
