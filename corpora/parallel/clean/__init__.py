"""What tells a good sentence pair from a bad one: lexicon, features, classifier, synthetic noise."""
