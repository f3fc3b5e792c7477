"""What do two ranks compute when all nodes of one halt at once, and those of the other late?

Started once for each rank with the file to write; without ranks it is one process that has all rows. `plain` does
without numba.
"""

import os
import sys
from copy import copy

import numpy as np
import torch
from scipy import sparse

HALF, STEPS = 40, 8


def made_graph():
    """Two communities, the quick and the slow, who know a few of each other."""
    from apgcn.data.graph import Graph

    random = np.random.default_rng(0)
    among = sparse.random(HALF, HALF, density=0.2, random_state=random)
    between = sparse.random(HALF, HALF, density=0.01, random_state=random)
    adjacency = sparse.block_array([[among, between], [None, among]], format="csr")
    adjacency = ((adjacency + adjacency.T) != 0).astype(np.float32)
    kind = np.repeat([0, 1], HALF)
    features = np.eye(2)[kind] + random.uniform(0, 0.2, size=(2 * HALF, 2))
    return Graph(adjacency, features, kind, class_names=("quick", "slow"))


def computed(pack, *, everybody=False):
    """Output, steps and the gradients of all weights, of a network whose halting unit tells the two apart."""
    network, sharp = pack.model, 40.0
    network.propagation.halting_unit.bias.data += 100.0 * everybody
    for weight, values in (
        (network.predict.first.weight, torch.eye(2)),
        (network.predict.second.weight, torch.eye(2)),
        (network.propagation.halting_unit.weight, sharp * torch.tensor([1.0, -1.0])),
    ):
        weight.data = values.view_as(weight).clone()
    said = network(pack.graph)
    pack.loss(said).sum().backward()
    pack._learned()
    gradients = [weight.grad.flatten() for weight in network.parameters()]
    return {"output": said.output[0], "steps": said.steps[0], "gradient": torch.cat(gradients)}


def main(out, *, freeze, everybody):
    from apgcn.data.splits import Split
    from apgcn.distributed.communication import world
    from apgcn.distributed.graph_shard import part_of
    from apgcn.distributed.trainer import PartPack
    from apgcn.models.apgcn import APGCNConfig
    from apgcn.ops.device_graph import DeviceGraph
    from apgcn.training.config import TrainingConfig
    from apgcn.training.runs import Run
    from apgcn.training.trainer import BatchedTrainer

    graph = made_graph()
    nodes = np.arange(2 * HALF)
    split = Split(nodes[::2], nodes[1::4], nodes[3::4])
    still = {"dropout": 0.0, "edge_dropout": 0.0, "z0_dropout": 0.0, "update_dropout": 0.0}
    hyperparameters = APGCNConfig(hidden_channels=2, max_steps=STEPS, penalty=0.1, freeze_halted=freeze, **still)
    given = [Run(split, init=0, dataset="halves")], hyperparameters, TrainingConfig()
    if "RANK" not in os.environ:
        found = computed(BatchedTrainer(DeviceGraph.of(graph), *given), everybody=everybody)
    else:
        with world() as ranks:
            owner = np.repeat([0, 1], HALF).astype(np.int16)
            part = part_of(graph, owner, ranks.rank)
            pack = PartPack(ranks, part, owner, 2, *given)
            before = copy(ranks.traffic)
            found = computed(pack, everybody=everybody)
            exchanges = ranks.traffic.since(before).exchanges
            before = copy(ranks.traffic)
            pack.graph.adjacency.exchange.send(torch.zeros(1, HALF, 3))
            counted = exchanges, ranks.traffic.since(before).bytes, len(part.ghosts)
            found |= zip(("exchanges", "bytes", "ghosts"), map(torch.tensor, counted), strict=True)
    np.savez(out, **{name: value.detach().numpy() for name, value in found.items()})


if __name__ == "__main__":
    if "plain" in sys.argv:
        sys.modules["numba"] = None
    main(sys.argv[1], freeze="freeze" in sys.argv, everybody="all" in sys.argv)
    sys.stdout.flush()
    os._exit(0)
