"""The account's data: made from the seed on demand, with the changes since."""
