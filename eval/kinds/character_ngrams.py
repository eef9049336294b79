"""Character n-grams, from which the control ``ngram`` learns."""


def character_grams(text: str, longest: int = 5) -> list[str]:
    """Return character n-grams of every word with its borders, lower-cased."""
    return [
        word[i : i + n]
        for word in (f" {w} " for w in text.lower().split())
        for n in range(1, longest + 1)
        for i in range(len(word) - n + 1)
    ]
