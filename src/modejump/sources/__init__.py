"""Tables that are read in chunks: Parquet files, Dask frames, and chunks of the user's own.

May import: errors and samplers; pyarrow and dask when they are used.
"""

from modejump.sources.base import ChunkSource, is_source, scan_chunks
from modejump.sources.dask import scan_dask
from modejump.sources.parquet import scan_parquet

__all__ = ["ChunkSource", "is_source", "scan_chunks", "scan_dask", "scan_parquet"]
