"""What every room stands on: errors, compilation, random numbers, threads, progress.

May import: NumPy and Numba; Rich when a bar is drawn. Nothing else of the package.
"""
