"""The account's data: made from the seed when it is asked for, and what was written since."""
