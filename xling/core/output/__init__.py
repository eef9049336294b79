"""Outputs of commands: manifests, atomic publication, leases, resumable parts, record files."""
