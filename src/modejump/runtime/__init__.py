"""Who works on chains, and what survives on disk: executors, checkpoints, snapshots, locks.

May import: core, features, problem, kernels.
"""
