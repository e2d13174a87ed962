"""Every output table's columns, once, and rows as dictionaries, JSON lines, CSV, Arrow, data frames
and HTML.

`seorep_async/guides/tables.md` shows what users do with them.
"""
