"""What other programs call: engines on many machines, dlt, agents; `seorep guide engines`, `seorep guide agents`."""
