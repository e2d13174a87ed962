"""Functions for other programs: engines, dlt and hosts of agents."""
