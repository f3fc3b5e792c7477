"""The page that explains a trained AP-GCN: its graph, the propagation steps of every node, and their cost.

`payload` computes what the page shows, with the node positions of `layout`; `html` writes the page.
"""
