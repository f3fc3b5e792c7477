"""The networks: what is computed at a node before, between or after the steps of listening."""
