"""What the golden scores were computed on, and the few lines that the tiny vocabularies were learned from."""

CORPUS = """\
A man in a blue shirt reads a newspaper.
Two dogs run across the wet grass and bark at the rain.
The woman is standing near an old bridge over the river.
Children play football in the street while their parents talk.
Nobody knew why the train was late, but everyone waited.
Ein Mann in einem blauen Hemd liest eine Zeitung.
Zwei Hunde laufen über das nasse Gras und bellen.
Die Frau steht neben einer alten Brücke am Fluss.
Kinder spielen Fußball auf der Straße, während ihre Eltern reden.
Niemand wusste, warum der Zug so spät kam; alle warteten.
It costs 12 euros and 50 cents, said the girl with 3 red hats!
candidate: reference: source:
""".splitlines()

CANDIDATES = (
    "A man in a blue shirt reads a newspaper.",
    "A man reads.",
    "The dogs are running on the grass, and they bark!",
    "near the old bridge",
    "",
    "It costs 12 euros; nobody knew why the girl said 50.",
    "rain rain rain 猫 rain",
    "The parents talk while their children play in the street near the river, and the dogs run across the grass.",
)
REFERENCES = (
    "A man in a blue shirt is reading the paper.",
    "A man in a blue shirt reads a newspaper.",
    "Two dogs run across the wet grass and bark.",
    "The woman is standing near an old bridge.",
    "A girl.",
    "It costs 12 euros and 50 cents, said the girl with 3 red hats!",
    "the rain",
    "Children play football in the street while their parents talk near the bridge over the river, said the woman.",
)
SOURCES = (
    "Ein Mann in einem blauen Hemd liest eine Zeitung.",
    "Ein Mann liest.",
    "Zwei Hunde laufen über das nasse Gras und bellen.",
    "Die Frau steht neben einer alten Brücke.",
    "Ein Mädchen.",
    "Es kostet 12 Euro.",
    "Regen",
    "Kinder spielen Fußball auf der Straße, während ihre Eltern reden; niemand wusste, warum der Zug so spät kam.",
)
