"""Training on your own text: language identification, limits of the filters."""
