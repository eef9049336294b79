"""Signs of a good sentence pair and of a bad one: lexicon, features, classifier, synthetic noise."""
