"""One language out of all of Common Crawl: its columnar index read by ranges, then the records of the matching rows."""
