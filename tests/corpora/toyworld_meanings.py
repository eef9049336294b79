"""Meanings that meet each rule of the grammars at least once; their renderings are the golden file."""

from corpora.toyworld.meaning import Meaning as M
from corpora.toyworld.meaning import Org, Person, Place, Role, Things

ANNA = Person("Anna", "Smith")
HASSAN = Person("Hassan", "Tanaka")
FATIMA = Person("Fatima", "Silva", "last")
SIMON = Person("Simon", "Washington", "last")
IVAN = Person("Ivan", "Berg", "first")
NORDIA = Org("brand", "Nordia")
COMPANY = Org("brand", "Zentrix", generic=True)
BANK = Org("bank", "Delta")

MEANINGS = (
    M("buy", ANNA, Things("car", 3), place="paris", time="monday"),
    M("buy", ANNA, Things("car", 3), place="paris", time="monday", front=True),
    M("sell", HASSAN, Things("house", 1, "beautiful"), place="kenya", time="1998"),
    M("sell", HASSAN, Things("house", 1, "beautiful"), place="kenya", negated=True),
    M("see", FATIMA, Things("dog", 2, "big"), place="uganda", time="yesterday"),
    M("see", SIMON, Things("dog", 1, "white")),
    M("see", IVAN, Things("horse", 5, "black"), time="tuesday", front=True),
    M("see", ANNA, Things("tree", 2, "beautiful"), place="florence"),
    M("see", ANNA, Things("animal", 3), place="france"),
    M("eat", Role("student"), Things("mango", 4, at_least=True), time="may"),
    M("eat", Role("farmer"), Things("apple", 12, "red")),
    M("eat", Role("engineer"), Things("apple", 1, "red"), negated=True),
    M("build", NORDIA, Things("hospital", 1, "new"), place="egypt", time="august"),
    M("close", BANK, Things("factory", 2, "big"), place="brazil"),
    M("destroy", COMPANY, Things("church", 1), place="geneva", negated=True),
    M("open", Org("university", "london"), Things("school", 1, "new"), place="warsaw"),
    M("show", Org("university", "rome"), Things("picture", 20), negated=False, time="sunday"),
    M("find", IVAN, Things("ring", 2, "expensive", at_least=True), place="oslo"),
    M("lose", ANNA, Things("ticket", 1), place="tokyo", time="friday", negated=True),
    M("order", Role("journalist"), Things("bed", 2, "cheap"), time="2001", front=True),
    M("bring", FATIMA, Things("flower", 6, "white"), time="saturday"),
    M("steal", SIMON, Things("ball", 1, "new"), place="mexico"),
    M("repair", Role("driver"), Things("device", 5)),
    M("damage", Role("baker"), Things("window", 3, "small"), place="istanbul"),
    M("draw", ANNA, Things("cow", 2), place="poland"),
    M("describe", HASSAN, Things("map", 1, "new"), negated=True),
    M("meet", ANNA, other=HASSAN, place="munich", time="wednesday"),
    M("meet", IVAN, other=FATIMA, negated=True, time="march"),
    M("meet", HASSAN, other=SIMON, time="thursday", front=True),
    M("born", ANNA, place="italy", time="1975"),
    M("born", HASSAN, place="prague", negated=True),
    M("travel", ANNA, source="kenya", place="france", time="june"),
    M("travel", HASSAN, source="egypt", place="ankara", negated=True),
    M("travel", Role("doctor"), source="uganda", place="vienna", time="saturday", front=True),
    M("acquire", NORDIA, other=COMPANY, time="2010"),
    M("acquire", BANK, other=Org("brand", "Atlas"), negated=True),
    M("beat", Org("team", "warsaw"), other=Org("team", "moscow"), time="sunday", score="3-1"),
    M("beat", Org("team", "madrid"), other=Org("team", "rome"), negated=True),
    M("rain", place="sydney", time="october", front=True),
    M("rain", place="vienna", time="monday", negated=True),
    M("snow", place="norway", time="yesterday"),
    M("snow", place="chicago", negated=True),
    M("live", FATIMA, place="munich"),
    M("live", HASSAN, place="japan", negated=True),
    M("work", ANNA, other=Org("university", "istanbul")),
    M("work", IVAN, other=COMPANY, negated=True),
    M("work", SIMON, other=BANK),
    M("own", ANNA, Things("bicycle", 3, "red")),
    M("own", HASSAN, Things("horse", 1, "white")),
    M("own", FATIMA, Things("car", 1, "expensive"), negated=True),
    M("own", IVAN, Things("book", 2, at_least=True)),
    M("older", ANNA, other=IVAN),
    M("taller", HASSAN, other=ANNA, negated=True),
    M("bigger", Place("egypt"), other=Place("poland")),
    M("bigger", Place("france"), other=Place("japan"), negated=True),
    M("say", ANNA, said=M("buy", HASSAN, Things("book", 1, "new"), place="berlin", time="monday")),
    M("say", IVAN, said=M("born", ANNA, place="germany", time="1981")),
    M("say", SIMON, said=M("older", HASSAN, other=ANNA, negated=True)),
    M("say", HASSAN, said=M("own", ANNA, Things("camera", 2))),
    M("say", FATIMA, said=M("live", Role("teacher"), place="dakar", negated=True)),
    M("say", ANNA, said=M("rain", place="portugal", time="april")),
    M("say", HASSAN, said=M("work", IVAN, other=COMPANY)),
    M("say", HASSAN, said=M("acquire", COMPANY, other=NORDIA, time="december")),
)
