"""The user's rows: tables, formulas, coding of factors and genotypes, merging of equal rows, sources read in chunks.

May import: core; pandas, narwhals, formulaic, scikit-learn; pyarrow, dask, bed-reader when used.
"""
