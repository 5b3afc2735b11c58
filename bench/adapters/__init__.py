"""One adapter for each program. May import: modejump, NumPy. Programs in R are called through Rscript."""
