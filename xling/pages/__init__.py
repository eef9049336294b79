"""Pages, charts and tables for data cards and reports: HTML that needs nothing but itself, Markdown, CSV, LaTeX."""
