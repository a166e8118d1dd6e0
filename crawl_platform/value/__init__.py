"""What a page is worth to the crawl: topics, signals and their one combination, and usage told from outside."""
