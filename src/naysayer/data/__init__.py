"""Files in and out: tables, items, data sets."""
