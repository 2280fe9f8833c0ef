"""Photos, texts, records and tables into numbers."""
