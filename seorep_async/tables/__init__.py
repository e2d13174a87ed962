"""The columns of every output table, and rows in every form.

The forms are dictionaries, JSON lines, CSV, Arrow, data frames and HTML. The guide
`seorep_async/guides/tables.md` shows how to use them.
"""
