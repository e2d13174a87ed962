"""Tables: every output table's columns, and their values as Arrow, JSON strings, data frames and HTML."""
