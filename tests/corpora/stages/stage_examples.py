"""Documents that each stage keeps and drops, with its reason: the contract tests run on these."""

from xling.corpora.stages import STREAMING, Example
from xling.corpora.stages.perplexity import HEAD, MIDDLE, TAIL
from xling.text.document import LONE, TITLED

LISTS = {
    "domains.txt": "# sites\nbad.example\nhttps://ok.example/spam/\n",
    "url_words.txt": "poker\n",
    "words.txt": "casino\nviagra\npoker\n赌场\n",
}
LISTED = {"domains": ("domains.txt",), "url_words": ("url_words.txt",), "words": ("words.txt",)}
TEST_FILES = {"evaluation.tsv": "1\tone two three four five six\n2\t委员会下周开会\n"}


def examples_of_rules() -> dict[str, str]:
    """Return a text of eight lines that every rule accepts, and reason -> a variant that this rule rejects."""
    words = [a + b + c for a in "bdfgk" for b in "aeiou" for c in ("lmo", "nta", "rsi", "pol")]
    good_text = "\n".join(" ".join(words[i : i + 12]) + "." for i in range(0, 96, 12))
    first_line = good_text.partition("\n")[0]
    return {
        "": good_text,
        "too_few_words": " ".join(words[:49]) + ".",
        "mean_word_length": " ".join("abcdefgh"[i % 8] for i in range(60)) + ".",
        "symbols": good_text + " # … ... ..." * 4,
        "few_letters": good_text + " 1999 2000 2001 2002" * 12,
        "braces": good_text + "{}{}{}{}{}{}{}{}{}{}",
        "placeholder": good_text + "\nLorem Ipsum dolor.",
        "bullets": "\n".join("• " + line for line in good_text.split("\n")),
        "ellipses": good_text.replace(".", "…", 3).replace(".", " …", 2),
        "repeated_lines": f"{good_text}\n{first_line * 3}\n{first_line * 3}",
        "unended_lines": good_text.replace(".", ""),
        "short_lines": good_text.replace(" ", ".\n"),
        "top_ngram": good_text.replace("\n", " one two one two one two one two.\n"),
        "repeated_runs": good_text + " " + " ".join(words[3:24]) + " x.",
    }


OF_RULES = examples_of_rules()
OPTIONAL_LIMITS = {
    "braces": {"max_braces": 0.02},
    "placeholder": {"max_placeholders": 0.0},
    "short_lines": {"max_short": 0.35},
}
ENGLISH = "The committee will meet again next week to discuss the new proposals for the public library."
SWAHILI = "Kamati itakutana tena wiki ijayo kujadili mapendekezo mapya ya maktaba ya umma katika mji wetu."
MENU = "Home\nAbout us\nNews | Archive\nContact\nLogin\nBasket (0)"
TEXT = (
    "The council met on Tuesday evening to decide how the old bridge over the river will be repaired.\n"
    "Several members asked for a second opinion, because the first report was written before the flood, and "
    "nobody has looked at the pillars since then.\n"
    "The engineers will start in May. Until the work is done, buses take the road along the northern bank."
)
FOOTER = "Share\nTweet\nPrivacy policy\nTerms of use\n© 2024"
CUTOFFS = {"head": 200, "tail": 400, "max_perplexity": 1000}
EXAMPLES = {
    "blocklist": tuple(
        Example(reason, text, url, settings=LISTED, files=LISTS)
        for reason, text, url in (
            ("", "an evening at the casino", "https://ok.example/gambler"),
            ("listed_site", "fine text", "https://en.22BET.com/news"),
            ("blocked_domain", "fine text", "https://www.BAD.example:8080/x?y"),
            ("blocked_domain", "fine text", "https://ok.example/spam/1"),
            ("blocked_url_word", "fine text", "https://ok.example/poker-night"),
            ("blocked_words", "Viagra, casino & POKER", ""),
            ("blocked_words", "欢迎来到赌场" * 3, ""),
        )
    ),
    "contamination": tuple(
        Example(
            reason,
            text,
            settings={"files": ("evaluation.tsv",), "n": 5, "min_units": 3},
            files=TEST_FILES,
        )
        for reason, text in (
            ("", "one two three four"),
            ("overlap", "Before: ONE two, three four five."),
            ("overlap", "他说委员会下周开会"),
        )
    ),
    "detokenise": (
        Example("", "The well @-@ known man did n't come ."),
        Example("", "The low@@ er@@ ed house ."),
        Example("", "Plain text, as it is written."),
        Example("empty", "<s> </s>"),
    ),
    "filters": (
        *(
            Example(reason, text, settings={"limits": OPTIONAL_LIMITS.get(reason, {})})
            for reason, text in OF_RULES.items()
        ),
        Example("few_stop_words", OF_RULES[""], lang="en"),
        Example("too_many_words", OF_RULES[""], settings={"limits": {"max_words": 90}}),
    ),
    "langid": (
        Example("", f"{SWAHILI}\n{ENGLISH}", settings={"langs": ("swh",)}),
        Example("no_letters", "123 456 !!! 789"),
        Example("other_language", ENGLISH, settings={"langs": ("sw",)}),
        Example("low_score", SWAHILI, settings={"langs": ("sw",), "threshold": 1.01}),
        Example(
            "wrong_script", "委员会下周将再次开会 abc", settings={"langs": ("zh",), "min_script_share": 1.0}
        ),
        Example(
            "paragraphs_in_other_languages",
            f"{SWAHILI}\n{SWAHILI}\n{ENGLISH}",
            settings={"langs": ("sw",), "paragraphs": True, "paragraph_chars": 10},
        ),
    ),
    "length": (
        Example("", "t\n" + "x" * 300, form=TITLED),
        Example("", "x" * 300),
        Example("", "a sentence.", form=LONE),
        Example("", "a title\nten chars.", settings={"min_chars": 10}, form=TITLED),
        Example("short", "t\n" + "x" * 299, form=TITLED),
        Example("short", "t" * 299),
        Example("short", "a sentence.", settings={"min_chars": 12}, form=LONE),
    ),
    "lines": (
        Example("", f"The old bridge\n{TEXT}", settings={"sources": ("",)}, form=TITLED),
        Example("", f"The old bridge\n{MENU}\n{FOOTER}"),
        Example(
            "boilerplate",
            f"The old bridge\n{MENU}\n{TEXT}\n{FOOTER}",
            settings={"sources": ("",)},
            form=TITLED,
        ),
        Example("no_running_text", f"The old bridge\n{MENU}\n{FOOTER}", settings={"sources": ("",)}),
    ),
    "perplexity": tuple(
        Example(reason, "any text", meta={"perplexity": perplexity}, settings=CUTOFFS | {"keep": keep})
        for reason, perplexity, keep in (
            ("", 100, (HEAD,)),
            ("", 300, (MIDDLE,)),
            ("", 400, (TAIL,)),
            ("head", 199.9, (MIDDLE, TAIL)),
            ("middle", 200, (HEAD, TAIL)),
            ("tail", 400, (HEAD, MIDDLE)),
            ("too_perplexing", 1001, (HEAD, MIDDLE, TAIL)),
        )
    ),
    "pii": (
        Example("", "write to a.b@example.org or call +254 712 345 678"),
        Example("", "a@b.org c@d.org", settings={"max_masked": 2}),
        Example("address_list", "a@b.org c@d.org 8.8.8.8", settings={"max_masked": 2}),
    ),
    "repair": (
        Example("", "Ã©tÃ© dÃ©jÃ\xa0"),
        Example("", "abc \ufffd", settings={"max_replacement_ratio": 0.5}),
        Example("empty", " \n\x00\ufeff "),
        Example("undecodable", "abc \ufffd"),
        Example("", "Stanê³a, ¿e cz³owiek myœla³.", settings={"lang": "pl"}),
        Example("lost_letters", "Des membres de l?Assembl?e sont ?lus."),
        Example("lost_letters", "La cour se trouvait plong?e dans le noir."),
        Example("lost_letters", "Trente-quatre maisons avaient ?t? construites."),
        Example("", "Really? he said. See http://a.b/c?d and ?What is it?"),
        Example("mojibake", "‡‡Ë†Å¡Ã‚¯¿½‡‡"),
    ),
}


def examples_of(name: str) -> tuple[Example, ...]:
    """Those of a stage; one that is not ours shows its own."""
    return EXAMPLES.get(name) or STREAMING[name].examples
