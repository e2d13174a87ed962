"""The version of this package, as the distribution, the tables of pulls and the User-Agent have it."""

__version__ = "0.1.0"
