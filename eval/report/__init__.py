"""The report: tables, figures and sections, rendered as a page."""
