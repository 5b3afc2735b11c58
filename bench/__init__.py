"""Benchmarks: a table of problems, one adapter for each program, and rows that compare them.

``python -m bench`` from the repository's root; README.md says how to read what it prints. May import: modejump and
its libraries. Other programs are called, never required.
"""
