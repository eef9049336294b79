"""Mining of translations from two monolingual texts: ``xling mine``."""
