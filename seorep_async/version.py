"""The version of this package, which the table of pulls and the User-Agent also show."""

__version__ = "0.1.0"
