"""Tables of scores, published results beside them, and sealed results."""
