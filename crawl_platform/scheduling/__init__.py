"""What to fetch, how often and with what capacity: pure formulas, arrays in, arrays out."""
