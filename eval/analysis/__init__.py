"""Analysis of transfer.

What the layers of a model encode about languages and meaning, compared with random weights.
"""
