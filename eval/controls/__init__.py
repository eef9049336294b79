"""Systems without a model: the scores that a model has to exceed."""
