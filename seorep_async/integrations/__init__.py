"""Functions that other programs call: engines, dlt and hosts of agents."""
