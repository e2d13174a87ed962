"""The account's data: made from the seed when it is needed, with the changes since."""
