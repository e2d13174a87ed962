"""`seorep guide`: the pages of the guide."""
