"""Training of one model on a graph whose rows are distributed over several ranks (processes), started by torchrun.

Start with `train`: `train_sharded` partitions the graph and trains it with a `ShardedTrainer` on every rank.

communication   `Communicator`: collective operations, their traffic, and lost ranks
partition       which rank holds which node: METIS or blocks
graph_shard     `GraphShard`, the rows of a rank, and `GraphSource`, where they come from
streaming_npz   `NpzSource`: shards of an archive that is larger than the memory of a rank
halo            `HaloExchange`: the rows that ranks exchange before each propagation step
checkpoint      checkpoints of rank 0, and resuming from them
outputs         the trained model, gathered results, and the folder that all ranks write to
"""

from apgcn.distributed.communication import Communicator, connect_ranks
from apgcn.distributed.graph_shard import GraphShard, GraphSource, InMemorySource, shard_graph
from apgcn.distributed.halo import HaloExchange
from apgcn.distributed.streaming_npz import NpzSource
from apgcn.distributed.train import ShardedResult, ShardedTrainer, train_sharded

__all__ = [
    "Communicator",
    "GraphShard",
    "GraphSource",
    "HaloExchange",
    "InMemorySource",
    "NpzSource",
    "ShardedResult",
    "ShardedTrainer",
    "connect_ranks",
    "shard_graph",
    "train_sharded",
]
