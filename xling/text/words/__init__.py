"""Words of a text in any script: units, borders, forms, spelling, features."""
