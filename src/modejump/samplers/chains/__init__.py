"""Chains from the outside: arrays, growth, batches, snapshots."""
