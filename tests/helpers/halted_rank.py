"""Outputs and gradients of two ranks, of which all nodes of one halt at step 1 and those of the other late.

Started once for each rank with the file to write; without ranks it is one process that has all rows. With `plain` the
reference path is used, without numba.
"""

import os
import sys
from copy import copy

import numpy as np
import torch
from scipy import sparse

HALF, STEPS = 40, 8


def two_communities():
    """Two communities with a few edges between them."""
    from apgcn.data.graph import Graph

    random = np.random.default_rng(0)
    among = sparse.random(HALF, HALF, density=0.2, random_state=random)
    between = sparse.random(HALF, HALF, density=0.01, random_state=random)
    adjacency = sparse.block_array([[among, between], [None, among]], format="csr")
    adjacency = ((adjacency + adjacency.T) != 0).astype(np.float32)
    labels = np.repeat([0, 1], HALF)
    features = np.eye(2)[labels] + random.uniform(0, 0.2, size=(2 * HALF, 2))
    return Graph(adjacency, features, labels, class_names=("quick", "slow"))


def compute(trainer, *, halt_all=False):
    """Output, steps and gradients of all weights, of a model whose halting unit separates the two communities."""
    model, scale = trainer.model, 40.0
    model.propagation.halting_unit.bias.data += 100.0 * halt_all
    for weight, values in (
        (model.predict.first.weight, torch.eye(2)),
        (model.predict.second.weight, torch.eye(2)),
        (model.propagation.halting_unit.weight, scale * torch.tensor([1.0, -1.0])),
    ):
        weight.data = values.view_as(weight).clone()
    output = model(trainer.graph)
    trainer.loss(output.select(trainer.train_nodes.index)).sum().backward()
    trainer._reduce_gradients()
    gradients = [weight.grad.flatten() for weight in model.parameters()]
    return {"output": output.output[0], "steps": output.steps[0], "gradient": torch.cat(gradients)}


def main(out, *, freeze, halt_all):
    from apgcn.data.splits import Split
    from apgcn.distributed.communication import connect_ranks
    from apgcn.distributed.graph_shard import shard_graph
    from apgcn.distributed.train import ShardedTrainer
    from apgcn.models.apgcn import APGCNConfig
    from apgcn.ops.device_graph import DeviceGraph
    from apgcn.training.config import TrainingConfig
    from apgcn.training.runs import Run
    from apgcn.training.trainer import BatchedTrainer

    graph = two_communities()
    nodes = np.arange(2 * HALF)
    split = Split(nodes[::2], nodes[1::4], nodes[3::4])
    no_dropout = {"dropout": 0.0, "edge_dropout": 0.0, "z0_dropout": 0.0, "update_dropout": 0.0}
    model = APGCNConfig(hidden_channels=2, max_steps=STEPS, penalty=0.1, freeze_halted=freeze, **no_dropout)
    arguments = [Run(split, init=0, dataset="halves")], model, TrainingConfig()
    if "RANK" not in os.environ:
        arrays = compute(BatchedTrainer(DeviceGraph.from_graph(graph), *arguments), halt_all=halt_all)
    else:
        with connect_ranks() as comm:
            partition = np.repeat([0, 1], HALF).astype(np.int16)
            shard = shard_graph(graph, partition, comm.rank)
            trainer = ShardedTrainer(comm, shard, partition, 2, *arguments)
            before = copy(comm.traffic)
            arrays = compute(trainer, halt_all=halt_all)
            exchanges = comm.traffic.since(before).exchanges
            before = copy(comm.traffic)
            trainer.graph.adjacency.halo.exchange_rows(torch.zeros(1, HALF, 3))
            counts = exchanges, comm.traffic.since(before).bytes, len(shard.halo_nodes)
            arrays |= zip(("exchanges", "bytes", "halo_nodes"), map(torch.tensor, counts), strict=True)
    np.savez(out, **{name: value.detach().numpy() for name, value in arrays.items()})


if __name__ == "__main__":
    if "plain" in sys.argv:
        sys.modules["numba"] = None
    main(sys.argv[1], freeze="freeze" in sys.argv, halt_all="all" in sys.argv)
    sys.stdout.flush()
    os._exit(0)
