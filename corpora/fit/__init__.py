"""Training on your own text: language identification, the model of boilerplate, limits of the filters."""
