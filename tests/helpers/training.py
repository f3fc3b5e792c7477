"""A model that is chosen or compared, and its predictions."""

from apgcn.inference.selection import fit_and_compare


def fit_with_leaderboard(graph, split, options):
    """`fit_and_compare`, with predictions for all nodes in any case."""
    model, predictions = fit_and_compare(graph, split, options)
    return model, predictions or model.predict(graph, device=options.device, threads=options.threads)
