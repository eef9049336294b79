"""Pairs that each filter keeps and drops, with its reason: the contract tests run on these."""

from xling.corpora.parallel.filters import PAIR_FILTERS, PairExample

EXAMPLE_SENTENCE = "Carlos Smith showed an expensive hat in Poland on Saturday."
MIN_CORPUS = 1500
EARLIER_PAIRS = (("A cat.", "Eine Katze."),)
LONG_PAIRS = (("A small cat sleeps in the house.", "Eine kleine Katze schläft im Haus."),)
ELISION_PAIRS = (("It's water from a well.", "C'est de l'eau d'un puits."),)
UNSPACED_PAIRS = (("He came home late today.", "เขากลับบ้านดึกวันนี้"),)
FRENCH = "La vieille femme vend du pain frais."
LONG_REPETITION = "the son of Jose, the son of Eliezer, the son of Jorim, the son of Matthat, the son of Levi"
ENGLISH, GERMAN = "The old woman sells fresh bread.", "Die alte Frau verkauft frisches Brot."
EXAMPLES = {
    "align": (
        PairExample("", "The old woman sells fresh bread.", "Die alte Frau verkauft frisches Brot."),
        PairExample(
            "",
            EXAMPLE_SENTENCE,
            "Carlos Smith hat am Samstag in Polen einen teuren Hut gezeigt.",
            corpus=MIN_CORPUS,
        ),
        PairExample(
            "foreign_words",
            EXAMPLE_SENTENCE,
            "Carlos Smith hat am an expensive hat in Poland on Saturday.",
            corpus=MIN_CORPUS,
        ),
        PairExample(
            "unrelated",
            "Jordan has a factory.",
            "Thomas Berlin ist älter als Clara Mwangi.",
            corpus=MIN_CORPUS,
        ),
        PairExample("partial", EXAMPLE_SENTENCE, "Carlos Smith hat am", corpus=MIN_CORPUS),
        PairExample(
            "disordered",
            EXAMPLE_SENTENCE,
            "Samstag gezeigt. einen am hat Hut in Smith teuren Carlos Polen",
            corpus=MIN_CORPUS,
        ),
    ),
    "duplicates": (
        PairExample("", "A cat.", "Kater", before=EARLIER_PAIRS),
        PairExample("exact_pair", "A cat.", "Eine Katze.", before=EARLIER_PAIRS),
        PairExample("near_pair", "A CAT!", "eine Katze 2", before=EARLIER_PAIRS),
        PairExample(
            "word_more", LONG_PAIRS[0][0], "Eine kleine Katze schläft im im Haus.", before=LONG_PAIRS
        ),
        PairExample("word_more", "A small cat sleeps in house.", LONG_PAIRS[0][1], before=LONG_PAIRS),
        PairExample(
            "word_more", "It's water from a well.", "C'est de l'eau d'un d'un puits.", before=ELISION_PAIRS
        ),
        PairExample("word_more", UNSPACED_PAIRS[0][0], "เขากลับบ้านดึกบ้าวันนี้", "en-th", before=UNSPACED_PAIRS),
        PairExample("", UNSPACED_PAIRS[0][0], "วันนี้ผมกลับบ้านค่ำ", "en-th", before=UNSPACED_PAIRS),
        PairExample("", LONG_PAIRS[0][0], "Eine kleine Maus schläft im Haus.", before=LONG_PAIRS),
        PairExample("src_again", "A cat.", "Kater", settings={"sides": "src"}, before=EARLIER_PAIRS),
        PairExample("tgt_again", "Tom", "Eine Katze.", settings={"sides": "either"}, before=EARLIER_PAIRS),
    ),
    "empty": (
        PairExample("", "House", "Haus"),
        PairExample("empty_src", "", "Haus"),
        PairExample("empty_src", "...", "Haus"),
        PairExample("empty_tgt", "House", " "),
        PairExample("identical", "Not translated!", "not translated"),
        PairExample("", "Berlin", "Berlin", settings={"identical": False}),
    ),
    "langid": (
        PairExample("", ENGLISH, GERMAN),
        PairExample("other_src", FRENCH, GERMAN),
        PairExample("other_tgt", ENGLISH, FRENCH),
        PairExample("", GERMAN, ENGLISH),
        PairExample("swapped", GERMAN, ENGLISH, settings={"swap": False}),
    ),
    "length": (
        PairExample("", "I had three dogs.", "Ich hatte drei Hunde."),
        PairExample(
            "", "The old woman sells fresh bread in the village.", "老妇人在村里卖新鲜面包。", "en-zh"
        ),
        PairExample("too_short", "I", "x"),
        PairExample("too_long", "word " * 500, "Wort " * 500),
        PairExample("ratio", "I came home late yesterday and went to bed.", "Ich kam."),
        PairExample(
            "ratio",
            "The old woman sells fresh bread in the village.",
            "老妇人在村里卖新鲜面包。" * 4,
            "en-zh",
        ),
    ),
    "long_words": (
        PairExample("", "a long address: http://www.example.org/" + "b" * 41, "ein Wort"),
        PairExample("long_word", "a " + "b" * 41, "ein Wort"),
    ),
    "noise": (
        PairExample("", "I will <3 you", "Ich werde dich <3"),
        PairExample("", "USA", "die USA"),
        PairExample("", "I will come.", "می\u200cآیم.", "en-fa"),
        PairExample("", "See x.org/a?b=c now", "Siehe x.org/a?b=c jetzt"),
        PairExample("invisible", "It is late.", "Es ist\x07 spät."),
        PairExample("invisible", "It is late.", "Es ist\u200b spät."),
        PairExample("lost_letters", "It is late.", "Es ist sp?t."),
        PairExample("lost_letters", "It is big.", "Es ist ?ppig."),
        PairExample("lost_letters", "He blamed me for it.", "Il me l'a reproch?.", "en-fr"),
        PairExample("", "He asked: where?", "Er fragte: wo? ..."),
        PairExample("letter_spaced", "It is late now", "E s  i s t  s p ä t"),
        PairExample("markup", "It is late.", "[b]Es ist spät.[/b]"),
        PairExample("markup", "It is late.", ".main { color: #fff; margin: 0 } Es ist spät."),
        PairExample("mojibake", "It is a cafÃ© here.", "Es ist ein Café."),
        PairExample("mojibake", "Itâ€™s late.", "Es ist spät."),
        PairExample("markup", "<b>Bold</b> word", "ein fettes Wort"),
        PairExample("markup", "Fish &amp; chips", "Fisch und Pommes"),
        PairExample("few_letters", "12 34 -- 56 ##", "zwölf und mehr"),
        PairExample("", "30 June 2021.", "30 Haziran 2021.", "en-tr"),
        PairExample("few_letters", "30/06/2021 12:45:07 it", "30/06/2021 12:45:07 es"),
        PairExample("", "'Is it right?,' he asked.", "„Ist es richtig?“, fragte er."),
        PairExample("casing", "STOP AT ONCE", "Halt sofort an"),
        PairExample("", "He met J. R. R. T. at 3.5 p.m.", "Er traf ihn um halb vier."),
        PairExample(
            "punctuation", "It is late now, let us go.", "Es ist spät, gehen wir nach Hause. !!! ***"
        ),
        PairExample("", "It is. It was. It is. It was. It is.", "है। था। है। था। है।", "en-hi"),
        PairExample("", "It is. It was. It is. It was. It is.", "ہے۔ تھا۔ ہے۔ تھا۔ ہے۔", "en-ur"),
        PairExample(
            "", "10 sq km, 20 sq km, 30 sq km and 40 sq km", "10 кв. км, 20 кв. км, 30 кв. км и 40 кв. км"
        ),
        PairExample("punctuation", "One. Two. Three. Four. Five.", "Eins zwei drei vier fünf."),
        PairExample(
            "",
            "Come. It is late. Eat. Then sleep. Good night.",
            "มาเถอะ ดึกแล้ว กินข้าว แล้วนอน ราตรีสวัสดิ์",
            "en-th",
        ),
        PairExample("", "ມາເດີ ເດິກແລ້ວ ກິນເຂົ້າ ແລ້ວນອນ", "Komm. Es ist spät. Iss. Schlaf dann. Gut.", "lo-de"),
        PairExample("punctuation", "Come. It is late. Eat.", "มาไหม? นอนไหม? กินไหม? ไปไหม? จริงไหม?", "en-th"),
    ),
    "numbers": (
        PairExample("", "It cost 1,500 euros in 1999.", "Es kostete 1.500 Euro im Jahr 1999."),
        PairExample("", "I have 3 dogs.", "Ich habe drei Hunde."),
        PairExample("", "See https://www.example.org/a", "Siehe http://example.org/a"),
        PairExample("", "Built in 1998.", "१९९८ में बना.", "en-hi"),
        PairExample("", "It was played 77,000 times.", "77,000回プレイされた。", "en-ja"),
        PairExample("", "It was played 77,000 times.", "7万7000回プレイされた。", "en-ja"),
        PairExample("", "Music of the 1980s", "Musik der 80er"),
        PairExample("", "1.5 million at 3 p.m.", "1 500 000 um 15 Uhr"),
        PairExample(
            "", "More than 1,000 died, 52 of them in March.", "1000人以上が死亡、3月に52人。", "en-ja"
        ),
        PairExample("", "The 19th century: 85 mph over 385 miles", "1800-luku: 136 km/h ja 620 km", "en-fi"),
        PairExample("", "It rose to 2.3 % in 2021, after 5 %.", "3395- Ɖò xwè 2021 mɛ 5%", "en-fon"),
        PairExample("", "In May 2014 he left.", "በግንቦት 2006 ሄደ።", "en-am"),
        PairExample("", "It began in 2020.", "เริ่มในปี 2563", "en-th"),
        PairExample("", "On July 29, 1954, he left.", "2 9 जुलाई, 1 9 54 को वह चला गया।", "en-hi"),
        PairExample("", "Up to 10 inches, at 85 mph", "Jopa 250 millimetriä, 38 m/s", "en-fi"),
        PairExample("", "1 to 2 inches, up to 4 inches", "2,5 bis 5 cm, bis zu 10 cm"),
        PairExample("number_mismatch", "In May 2014 he left.", "በግንቦት 2001 ሄደ።", "en-am"),
        PairExample(
            "number_mismatch", "From 1 to 2 inches to 4 inches", "Từ 1 đến 2 inch đến 6 inch", "en-vi"
        ),
        PairExample("number_mismatch", "Six metres (18 feet)", "Sechs Meter (19 Fuß)"),
        PairExample("number_mismatch", "40 stayed in the yard", "48 blieben auf dem Hof"),
        PairExample("number_mismatch", "It may be 0.", "Es kann 5 sein."),
        PairExample("number_mismatch", "In 2021 it began.", "0021 begann es."),
        PairExample("number_mismatch", "1.2 x 1012", "1.2 x 1019"),
        PairExample("number_mismatch", "On June 2, 2002", "Le 6 juin 2002", "en-fr"),
        PairExample("number_mismatch", "In May 2014 he left.", "Im Mai 2006 ging er.", "en-de"),
        PairExample("number_mismatch", "3) In 2021", "4) En 2021", "en-fr"),
        PairExample("number_mismatch", "15-year-old Ann", "Ann (16)", "en-fr"),
        PairExample("number_mismatch", "Livingston 1 - 0 Rangers", "Livingston 9 - 0 Rangers"),
        PairExample("number_mismatch", "From 2 to 4 inches", "De 5 à 4 pouces", "en-fr"),
        PairExample("number_mismatch", "Katrina (1967) came", "Katrina (1964) kam"),
        PairExample("number_mismatch", "On 3 August", "4. August"),
        PairExample("number_mismatch", "Between 25 and 30 people", "Zwischen 52 und 30 Personen"),
        PairExample("number_mismatch", "I have 3 dogs.", "Ich habe 4 Hunde."),
        PairExample("number_mismatch", "It happened in 1984.", "Es geschah 1948."),
        PairExample("number_mismatch", "Pages 12, 13 and 14.", "Einige Seiten."),
        PairExample("url_mismatch", "See www.example.org now.", "Siehe dort."),
        PairExample("url_mismatch", "Write to a@b.org now.", "Schreib an c@d.org."),
    ),
    "overlap": (
        PairExample("", "Yes!", "Ja!", heldout=("Yes!",)),
        PairExample("heldout_src", "A sentence of the test.", "Etwas", heldout=("a SENTENCE, of the test",)),
        PairExample(
            "heldout_src",
            "One more a sentence of the test.",
            "Etwas",
            heldout=("one a SENTENCE, of the test",),
        ),
        PairExample("", "One more a text of the test.", "Etwas", heldout=("one a SENTENCE, of the test",)),
        PairExample(
            "heldout_tgt",
            "A sentence of the test.",
            "Ein Satz aus dem Test.",
            heldout=("Ein Satz aus dem Test",),
        ),
    ),
    "repair": (
        PairExample("", "Fish &amp; chips", "Fisch und Pommes"),
        PairExample("", "It is late.", "Es ist spÃ¤t."),
        PairExample("", "Это дом.", "This is a house.", "en-ru"),
    ),
    "repetition": (
        PairExample("", "Row, row, row your boat", "Ruder, ruder, ruder dein Boot"),
        PairExample("", "The dead will be buried in Bangkok today.", "ผู้เสียชีวิตจะถูกฝังในกรุงเทพวันนี้", "en-th"),
        PairExample(
            "", LONG_REPETITION, "بن يوسي بن أليعازر بن يوريم بن متثات بن لاوي بن شمعون بن يهوذا", "en-ar"
        ),
        PairExample("repeated", "no no no no no no no no", "nein das will ich ja gar nicht"),
        PairExample("repeated", "We eat rice every day.", "เรากินข้าว" * 5, "en-th"),
        PairExample("repeated", "We eat rice every day.", "ကျွန်ုပ်တို့" * 4, "en-my"),
    ),
    "score": (
        PairExample("", "A cat.", "Eine Katze.", settings={"threshold": 0.3}, score=0.5),
        PairExample("", "A cat.", "Eine Katze.", settings={"threshold": 0.3, "top_k": 1}),
        PairExample("low_score", "A cat.", "Eine Katze.", settings={"threshold": 0.3}, score=0.1),
        PairExample(
            "below_top_k", "A cat.", "Eine Katze.", settings={"top_k": 1}, before=EARLIER_PAIRS, score=0.5
        ),
    ),
    "script": (
        PairExample("", "The USA and the EU", "США и ЕС, и NATO", "en-ru"),
        PairExample(
            "",
            "Daniel Sturridge saved Liverpool from Chelsea",
            "Daniel Sturridge ช่วย Liverpool จาก Chelsea",
            "en-th",
        ),
        PairExample("script_tgt", "He saved his team from a loss", "ช่วย his team from a loss", "en-th"),
        PairExample("", "The house is big.", "Уй катта.", "en-uz"),
        PairExample("script_tgt", "The library opens at nine.", "圖書館九點開門。", "en-zh"),
        PairExample("script_src", "Дом очень большой.", "Das Haus ist groß."),
        PairExample("script_tgt", "The house is big.", "Дом очень большой."),
    ),
}


def examples_of(name: str) -> tuple[PairExample, ...]:
    """Those of a filter; one that is not ours shows its own."""
    return EXAMPLES.get(name) or PAIR_FILTERS[name].examples
