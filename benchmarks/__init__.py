"""What the client costs, measured next to what users would pick instead: `python -m benchmarks`."""
