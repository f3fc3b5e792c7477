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
