"""From a graph and some runs to trained, stopped, best-weights networks."""
