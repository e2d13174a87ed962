"""The version of this package in the distribution, the tables of pulls and the User-Agent."""

__version__ = "0.1.0"
