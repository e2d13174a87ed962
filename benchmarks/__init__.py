"""What the client costs, compared with the alternatives that users have: `python -m benchmarks`."""
