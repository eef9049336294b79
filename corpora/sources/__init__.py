"""Document sources, one file each, chosen by the scheme of a URI."""
