"""The data card of a corpus, and the counts that it shows."""
