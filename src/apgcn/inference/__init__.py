"""One's own graph: from tables to a trained model on disk."""
