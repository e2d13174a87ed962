"""For other programs: Dask, Ray and Spark (`engines`), dlt, and hosts of agents (`mcp`)."""
