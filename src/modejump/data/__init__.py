"""The user's rows: tables, formulas, coding of factors, merging of equal rows, and sources that are read in chunks.

May import: core; pandas, narwhals, formulaic, scikit-learn and threadpoolctl; pyarrow and dask when they are used.
"""
