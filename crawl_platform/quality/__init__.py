"""What a good crawl is, measured: declared measures, and the SQL and NumPy behind each (docs/quality.md)."""
