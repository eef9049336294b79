"""Audit of a corpus by people: a page with a sample, and what their answers say of it: `xling corpus audit`."""
