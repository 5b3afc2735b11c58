"""Which textbook laws a search recovers, and which its peers do.

May import: everything below plots; NumPy, SciPy and pandas.
"""
