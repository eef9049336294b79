"""Static encoders: a word is the mean of its hashed features, a sentence the weighted sum of its words."""
