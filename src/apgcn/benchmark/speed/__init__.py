"""Speed of this machine, for `apgcn bench`.

`epochs` times an epoch, interleaved with the PyTorch Geometric implementations of `pyg_baselines`; `end_to_end` times
complete trainings and imports; `targets` compares both with the speeds that this project aims at.
"""
