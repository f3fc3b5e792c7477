"""Reports for readers, computed from records and trained models.

`sections` selects the tables and figures of a store; `csv`, `latex` and `markdown` write them as text, `html` as a page
with the plots of `plots`. `explain` writes the page about one trained model: its graph, and the propagation steps of
every node. `page` renders both pages as single files that load nothing from the network.
"""
