"""What every room stands on: errors, compilation, random numbers, threads, progress.

May import: NumPy, Numba and threadpoolctl; Rich when a bar is drawn. Nothing else of the package.
"""
