"""The demo corpus: hand-written pairs for its constructions, and what must hold for all that it draws."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

import pytest
from tests.tools.daily.forms import german_forms
from tools.daily.__main__ import rows
from tools.daily.phrases import DETERMINERS, Nominal
from tools.daily.scene import PERSONS, Scene

from regard.data.made import daily_columns
from regard.rng import Key
from tools.daily import english, german, grammar, lexicon


@dataclass
class Steered(Scene):
    """A scene that draws what it is told: wishes once each where they are among the options, phrases in their order."""

    wishes: list[str] = field(default_factory=list)
    phrases: list[str] = field(default_factory=list)

    def pick(self, options):  # type: ignore[no-untyped-def]
        for wish in self.wishes:
            for option in options:
                if wish == label(option):
                    self.wishes.remove(wish)
                    return option
        return options[0]

    def chance(self, share):  # type: ignore[no-untyped-def]
        return "lucky" in self.wishes

    def told(self, kein: int = 0) -> Nominal:
        words = self.phrases.pop(0).split()
        for subject, thing, *_ in PERSONS.values():
            if words in ([subject], [thing]):
                return self.pronoun(subject)
        if len(words) == 1 and words[0] in (*lexicon.MEN, *lexicon.WOMEN):
            return self.name(words)
        determiner = {"an": "a", "these": "this"}.get(words[0], words[0])
        determiner, rest = (determiner, words[1:]) if determiner in DETERMINERS else ("", words)
        for count in range(len(rest)):
            name = " ".join(rest[count:])
            for noun in lexicon.nouns().values():
                if name in (noun.english, english.plural(noun)):
                    self.wishes = rest[:count] + self.wishes
                    plural = name != noun.english and bool(noun.german_plural)
                    return self.phrase(noun, determiner, plural, count, kein)
        raise ValueError(f"no noun in {words}")

    def subject(self) -> Nominal:
        return self.told()

    def other(self, subject, pronouns=True):  # type: ignore[no-untyped-def]
        return self.told()

    def object(self, verb, subject, known, kein=0):  # type: ignore[no-untyped-def]
        return self.told(kein)

    def thing(self, nouns, known=None, flags="", share=0.3, kein=0):  # type: ignore[no-untyped-def]
        return self.told(kein)


def label(option: object) -> str:
    if isinstance(option, lexicon.Verb):
        return " ".join(word for word in (option.english, option.particle, option.preposition) if word)
    if isinstance(option, lexicon.Entry):
        return option.english.replace("_", " ")
    if isinstance(option, tuple):
        return " ".join(label(part) for part in option).strip()
    return str(option)


# construction | wishes | phrases, then English = German, then the links if they are written out
PAIRS = """
past | eat | I; an apple
  I ate an apple = Ich habe einen Apfel gegessen
  0-0 1-1 1-4 2-2 3-3
past | write | my old aunt; a letter
  My old aunt wrote a letter = Meine alte Tante hat einen Brief geschrieben
past | wash | the boys; the dirty car
  The boys washed the dirty car = Die Jungen haben das schmutzige Auto gewaschen
state | know | I; your neighbour
  I know your neighbour = Ich kenne deinen Nachbarn
state | trust | this child; the doctor
  This child trusts the doctor = Dieses Kind vertraut dem Arzt
state.past | need | we; a bed
  We needed a bed = Wir haben ein Bett gebraucht
state.ask | simple; like | you; cheese
  Do you like cheese? = Magst du Käse?
  0-0 1-1 2-0 3-2
state.not | simple; love | she; the small dog
  She does not love the small dog = Sie liebt den kleinen Hund nicht
habit | drink; every day | you; hot tea
  You drink hot tea every day = Du trinkst jeden Tag heißen Tee
habit | translate; on Sundays | you; books
  You translate books on Sundays = Du übersetzt sonntags Bücher
habit.front | get up; in the morning | he
  In the morning he gets up = Am Morgen steht er auf
  0-0 1-0 2-1 3-3 4-2 4-4 5-2 5-4
often | visit; rarely | Peter; his sister
  Peter rarely visits his sister = Peter besucht selten seine Schwester
often | collect; always | I; stones
  I always collect stones = Ich sammle immer Steine
progressive | read | she; the newspaper
  She is reading the newspaper = Sie liest die Zeitung
  0-0 1-1 2-1 3-2 4-3
progressive.separable | call | I; Anna
  I am calling Anna = Ich rufe Anna an
  0-0 1-1 2-1 2-3 3-2
progressive.dative | help | the women; the students
  The women are helping the students = Die Frauen helfen den Studenten
progressive.ditransitive | show | he; the picture; me
  He is showing me the picture = Er zeigt mir das Bild
progressive.preposition | wait for | you; the train
  You are waiting for the train = Du wartest auf den Zug
progressive.place | work; kitchen | you
  You are working in the kitchen = Du arbeitest in der Küche
progressive.place | dance; market | you
  You are dancing at the market = Du tanzt auf dem Markt
progressive.place | lie; beach | they
  They are lying on the beach = Sie liegen am Strand
  0-0 1-1 2-1 3-2 4-2 5-3
progressive.time | feed; now | I; the birds
  I am feeding the birds now = Ich füttere jetzt die Vögel
progressive.front | hurry; today | the old man
  Today the old man is hurrying = Heute beeilt sich der alte Mann
past.separable | take off | the children; the wet shoes
  The children took off the wet shoes = Die Kinder haben die nassen Schuhe ausgezogen
past.dative | follow | we; a cat
  We followed a cat = Wir sind einer Katze gefolgt
past.ditransitive | offer | he; an egg; the farmers
  He offered the farmers an egg = Er hat den Bauern ein Ei angeboten
  0-0 1-1 1-6 2-2 3-3 4-4 5-5
past.ditransitive | read | she; a fairy tale; the girl
  She read the girl a fairy tale = Sie hat dem Mädchen ein Märchen vorgelesen
past.preposition | remember | Eva; the wedding
  Eva remembered the wedding = Eva hat sich an die Hochzeit erinnert
  0-0 1-1 1-2 1-3 1-6 2-4 3-5
past.motion | drive; sea | you
  You drove to the sea = Du bist ans Meer gefahren
  0-0 1-1 1-4 2-2 3-2 4-3
past.motion | run; house | he
  He ran into the house = Er ist ins Haus gerannt
past.manner | open; carefully | Robert; the window
  Robert opened the window carefully = Robert hat das Fenster vorsichtig geöffnet
past.time | swim; on Monday | we
  We swam on Monday = Wir sind am Montag geschwommen
past.front | bake; yesterday | my grandmother; cakes
  Yesterday my grandmother baked cakes = Gestern hat meine Großmutter Kuchen gebacken
past.occasion | fall asleep; at/bei D gathering; concert | you
  At the concert you fell asleep = Beim Konzert bist du eingeschlafen
past.occasion | come back; because_of/wegen G weather; snow | they
  Because of the snow they came back = Wegen des Schnees sind sie zurückgekommen
past.company | dance; without/ohne A | Jan; his uncle
  Jan danced without his uncle = Jan hat ohne seinen Onkel getanzt
past.for | knit | she; socks; the baby
  She knitted socks for the baby = Sie hat Socken für das Baby gestrickt
perfect | solve; already | Lisa; the problem
  Lisa has already solved the problem = Lisa hat das Problem schon gelöst
not.yet | put on | he; the coat
  He has not put on the coat yet = Er hat den Mantel noch nicht angezogen
  0-0 1-1 2-5 3-6 4-6 5-2 6-3 7-4
not.yet | buy | we; bread
  We have not bought bread yet = Wir haben noch kein Brot gekauft
future | sell | the kings; the castle
  The kings will sell the castle = Die Könige werden das Schloss verkaufen
future.motion | go; station | I
  I will go to the station = Ich werde zum Bahnhof gehen
future.front | come back; tomorrow | you
  Tomorrow you will come back = Morgen wirst du zurückkommen
can | invite | we; our friends
  We can invite our friends = Wir können unsere Freunde einladen
must | tidy up | you; the bedroom
  You must tidy up the bedroom = Du musst das Schlafzimmer aufräumen
have to | take part in | she; the exam
  She has to take part in the exam = Sie muss an der Prüfung teilnehmen
  0-0 1-1 2-1 3-5 4-5 5-2 6-3 7-4
want to | eat up | Anna; the pizza
  Anna wants to eat up the pizza = Anna will die Pizza aufessen
may | watch TV | the children
  The children may watch TV = Die Kinder dürfen fernsehen
should | rest | you
  You should rest = Du solltest dich ausruhen
would like to | rent | I; a boat
  I would like to rent a boat = Ich möchte ein Boot mieten
had to | had to; wait for | we; them
  We had to wait for them = Wir mussten auf sie warten
modal.ask | can; repair | you; the lamp
  Can you repair the lamp? = Kannst du die Lampe reparieren?
put | put; past; on/auf table | he; the key
  He put the key on the table = Er hat den Schlüssel auf den Tisch gelegt
spot | simple; place; under/unter bed | the bottle
  The bottle is under the bed = Die Flasche ist unter dem Bett
be | hungry; people | the lions
  The lions are hungry = Die Löwen sind hungrig
be.past | beautiful | the flowers
  The flowers were beautiful = Die Blumen waren schön
be.not | tired | I
  I am not tired = Ich bin nicht müde
more than | big | the horse; the dog
  The horse is bigger than the dog = Das Pferd ist größer als der Hund
more than | expensive | my coat; his hat
  My coat is more expensive than his hat = Mein Mantel ist teurer als sein Hut
  0-0 1-1 2-2 3-3 4-3 5-4 6-5 7-6
as as | old | her brother; your uncle
  Her brother is as old as your uncle = Ihr Bruder ist so alt wie dein Onkel
there | building / town; cinema; village | -
  There is a cinema in the village = Es gibt ein Kino im Dorf
have | simple | Emil; a blue bicycle
  Emil has a blue bicycle = Emil hat ein blaues Fahrrad
have.not | simple | he; a car
  He does not have a car = Er hat kein Auto
  0-0 1-1 2-2 3-1 4-2 5-3
kein | past; drink | I; milk
  I did not drink milk = Ich habe keine Milch getrunken
kein | future; plant | they; a tree
  They will not plant a tree = Sie werden keinen Baum pflanzen
not | progressive; listen to | he; the teacher
  He is not listening to the teacher = Er hört dem Lehrer nicht zu
not.can | find | I; the key
  I cannot find the key = Ich kann den Schlüssel nicht finden
  0-0 1-1 1-4 2-5 3-2 4-3
not.preposition | past; think of | you; me
  You did not think of me = Du hast nicht an mich gedacht
request | give | the book; me
  Give me the book = Gib mir das Buch
request.please | close | the door
  Please close the door = Bitte schließe die Tür
request.not | disturb | my father
  Do not disturb my father = Störe meinen Vater nicht
ask | run; school | they
  Are they running to the school? = Rennen sie in die Schule?
ask.past | eat | you; the egg
  Did you eat the egg? = Hast du das Ei gegessen?
  0-0 1-1 2-4 3-2 4-3
habit.ask | hike; in summer | they
  Do they hike in summer? = Wandern sie im Sommer?
ask.time | answer; last week | your boss; you
  Did your boss answer you last week? = Hat dein Chef dir letzte Woche geantwortet?
future.ask | sing; tonight | she; songs
  Will she sing songs tonight? = Wird sie heute Abend Lieder singen?
  0-0 1-1 2-5 3-4 4-2 4-3
what | past; buy | she
  What did she buy? = Was hat sie gekauft?
who | past; open | the gate
  Who opened the gate? = Wer hat das Tor geöffnet?
whom | past; visit | you
  Whom did you visit? = Wen hast du besucht?
whom.dative | past; thank | he
  Whom did he thank? = Wem hat er gedankt?
where | past; find | you; the coin
  Where did you find the coin? = Wo hast du die Münze gefunden?
where to | progressive; go | you
  Where are you going? = Wohin gehst du?
when | future; wake up | he
  When will he wake up? = Wann wird er aufwachen?
why | progressive; ask | she; him
  Why is she asking him? = Warum fragt sie ihn?
which | past; read; book | you
  Which book did you read? = Welches Buch hast du gelesen?
how many | past; eat; apple | they
  How many apples did they eat? = Wie viele Äpfel haben sie gegessen?
number | past; buy; ten; egg | we
  We bought ten eggs = Wir haben zehn Eier gekauft
every | future; close; window | he
  He will close every window = Er wird jedes Fenster schließen
or.ask | progressive; drink; coffee | tea; coffee; you
  Are you drinking tea or coffee? = Trinkst du Tee oder Kaffee?
and.subject | future; sing | Peter; Eva; a song
  Peter and Eva will sing a song = Peter und Eva werden ein Lied singen
because | progressive; swim; thirsty | the woman
  The woman is swimming because she is thirsty = Die Frau schwimmt, weil sie durstig ist
although | past; get up; tired | he
  He got up although he was tired = Er ist aufgestanden, obwohl er müde war
if | you; sick; must; rest | -
  If you are sick, you must rest = Wenn du krank bist, musst du dich ausruhen
if.last | we; happy; can; pick up | our mother
  We can pick up our mother if we are happy = Wir können unsere Mutter abholen, wenn wir glücklich sind
that | know; past; turn off | Robert; the oven; I
  I know that Robert turned off the oven = Ich weiß, dass Robert den Ofen ausgeschaltet hat
that | hope; progressive; invite | she; us; they
  They hope that she is inviting us = Sie hoffen, dass sie uns einlädt
whether | simple; future; come back | she; he
  She does not know whether he will come back = Sie weiß nicht, ob er zurückkommen wird
relative | past; bake; teacher; nice | a cake
  The teacher who baked a cake is nice = Der Lehrer, der einen Kuchen gebacken hat, ist nett
relative.object | past; paint; picture; ugly | I
  The picture that I painted is ugly = Das Bild, das ich gemalt habe, ist hässlich
relative.dative | past; help; woman; friendly | we
  The woman whom we helped is friendly = Die Frau, der wir geholfen haben, ist freundlich
purpose | past; go; market; buy | he; potatoes
  He went to the market to buy potatoes = Er ist auf den Markt gegangen, um Kartoffeln zu kaufen
  0-0 1-1 1-5 2-2 3-3 4-4 5-6 5-8 6-9 7-7
attempt | try; past; turn on | she; the radio
  She tried to turn on the radio = Sie hat versucht, das Radio einzuschalten
and.clause | past; cook; fall asleep | Anna; soup; Robert
  Anna cooked soup and Robert fell asleep = Anna hat Suppe gekocht und Robert ist eingeschlafen
but.clause | future; wait for; hike | we; you; they
  We will wait for you, but they will hike = Wir werden auf dich warten, aber sie werden wandern
owner | past; repair; clock | the man; I
  I repaired the man's clock = Ich habe die Uhr des Mannes repariert
  0-0 1-1 1-6 2-4 3-5 4-2 4-3
owner | future; feed; dog | the girls; we
  We will feed the girls' dog = Wir werden den Hund der Mädchen füttern
owner | progressive; visit; aunt | the boss; he
  He is visiting the boss's aunt = Er besucht die Tante des Chefs
many | past; draw; bird | he
  He drew many birds = Er hat viele Vögel gezeichnet
two adjectives | past; buy; shirt; beautiful; red; a | she
  She bought a beautiful red shirt = Sie hat ein schönes rotes Hemd gekauft
and | past; pick | an apple; a pear; I
  I picked an apple and a pear = Ich habe einen Apfel und eine Birne gepflückt
modal.place | want to; sleep; garden | we
  We want to sleep in the garden = Wir wollen im Garten schlafen
there.no | bird; garden; animal plant / garden park farm | -
  There is no bird in the garden = Es gibt keinen Vogel im Garten
there.front | table; kitchen | -
  In the kitchen there is a table = In der Küche gibt es einen Tisch
  0-0 1-1 2-2 3-4 4-3 5-5 6-6
"""
ROWS = [record.split("\n  ") for record in re.split(r"\n(?=\S)", PAIRS.strip())]


def steer(row: list[str]) -> grammar.Sentence:
    construction, wishes, phrases = row[0].split(" | ")
    scene = Steered(Key(0).generator())
    scene.wishes = [wish.replace(" / ", " | ") for wish in wishes.split("; ")]
    scene.phrases = phrases.split("; ")
    family, rest = grammar.constructions()[construction]
    draft = family(scene, *rest)
    assert draft, row
    made = grammar.sentence(draft, construction)
    assert made, row
    return made


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_a_construction_says_what_was_written_by_hand(row: list[str]) -> None:
    made = steer(row)
    assert f"{' '.join(made.source)} = {' '.join(made.target)}" == row[1]
    if len(row) > 2:
        assert made.links == {tuple(map(int, link.split("-"))) for link in row[2].split()}


def test_pairs_are_written_by_hand_for_every_family_and_most_constructions() -> None:
    written = {row[0].split(" | ")[0] for row in ROWS}
    families = {grammar.constructions()[name][0] for name in written}
    assert families == {family for family, _ in grammar.constructions().values()}
    assert len(written) > 0.8 * len(grammar.constructions())
    assert len(ROWS) >= 100


def verb_of(lemma: str) -> lexicon.Verb:
    return next(verb for verb in lexicon.verbs() if verb.lemma == lemma)


@pytest.mark.parametrize(
    ("lemma", "ich", "du", "er", "participle", "order"),
    [
        ("eat/essen", "esse", "isst", "isst", "gegessen", "iss"),
        ("work/arbeiten", "arbeite", "arbeitest", "arbeitet", "gearbeitet", "arbeite"),
        ("dance/tanzen", "tanze", "tanzt", "tanzt", "getanzt", "tanze"),
        ("open/öffnen", "öffne", "öffnest", "öffnet", "geöffnet", "öffne"),
        ("hold/halten", "halte", "hältst", "hält", "gehalten", "halte"),
        ("invite/einladen", "lade", "lädst", "lädt", "eingeladen", "lade"),
        ("collect/sammeln", "sammle", "sammelst", "sammelt", "gesammelt", "sammle"),
        ("feed/füttern", "füttere", "fütterst", "füttert", "gefüttert", "füttere"),
        ("play/spielen", "spiele", "spielst", "spielt", "gespielt", "spiele"),
        ("drive/fahren", "fahre", "fährst", "fährt", "gefahren", "fahre"),
        ("read/vorlesen", "lese", "liest", "liest", "vorgelesen", "lies"),
        ("take part/teilnehmen", "nehme", "nimmst", "nimmt", "teilgenommen", "nimm"),
        ("repair/reparieren", "repariere", "reparierst", "repariert", "repariert", "repariere"),
        ("prepare/vorbereiten", "bereite", "bereitest", "bereitet", "vorbereitet", "bereite"),
    ],
)
def test_german_verbs_are_inflected(lemma: str, ich: str, du: str, er: str, participle: str, order: str) -> None:
    verb = verb_of(lemma)
    forms = [german.present(verb, agreement) for agreement in range(3)]
    assert [*forms, german.participle(verb), german.imperative(verb)] == [ich, du, er, participle, order]


@pytest.mark.parametrize(
    ("lemma", "third", "progressive", "past"),
    [
        ("run/rennen", "runs", "running", "ran"),
        ("lie/liegen", "lies", "lying", "lay"),
        ("bake/backen", "bakes", "baking", "baked"),
        ("carry/tragen", "carries", "carrying", "carried"),
        ("watch TV/fernsehen", "watches", "watching", "watched"),
        ("travel/reisen", "travels", "travelling", "travelled"),
        ("agree with/zustimmen", "agrees", "agreeing", "agreed"),
        ("visit/besuchen", "visits", "visiting", "visited"),
        ("play/spielen", "plays", "playing", "played"),
    ],
)
def test_english_verbs_are_inflected(lemma: str, third: str, progressive: str, past: str) -> None:
    verb = verb_of(lemma)
    assert (english.third(verb), english.progressive(verb), english.past(verb)) == (third, progressive, past)


@pytest.mark.parametrize(
    ("noun", "forms"),
    [
        ("boy", "Junge Jungen Jungen Jungen Jungen Jungen"),
        ("man", "Mann Mann Mann Mannes Männer Männern"),
        ("child", "Kind Kind Kind Kindes Kinder Kindern"),
        ("teacher", "Lehrer Lehrer Lehrer Lehrers Lehrer Lehrern"),
        ("boss", "Chef Chef Chef Chefs Chefs Chefs"),
        ("snow", "Schnee Schnee Schnee Schnees"),
        ("lady", "Dame Dame Dame Dame Damen Damen"),
    ],
)
def test_german_nouns_are_inflected(noun: str, forms: str) -> None:
    entry = lexicon.nouns()[noun]
    cases = [german.noun(entry, False, case) for case in german.CASES]
    plural = [german.noun(entry, True, case) for case in "ND"] if entry.german_plural else []
    assert " ".join([*cases, *plural]) == forms


@pytest.fixture(scope="module")
def drawn() -> list[grammar.Sentence]:
    return list(islice(grammar.drafts(Key(1, ("test",))), 20_000))


@pytest.fixture(scope="module")
def splits() -> dict[str, list[grammar.Sentence]]:
    sizes = {"train": 20_000, "valid": 500, "test": 500}
    return {split: list(grammar.sentences(split, count)) for split, count in sizes.items()}


@pytest.mark.full
def test_one_english_sentence_has_one_german_one_and_one_construction(drawn: list[grammar.Sentence]) -> None:
    found: dict[tuple[str, ...], tuple[tuple[str, ...], str]] = {}
    for made in drawn:
        assert found.setdefault(made.source, (made.target, made.construction)) == (made.target, made.construction)


@pytest.mark.full
def test_every_word_is_linked_and_links_are_in_range(drawn: list[grammar.Sentence]) -> None:
    for made in drawn:
        assert {i for i, _ in made.links} == set(range(len(made.source))), made
        assert {j for _, j in made.links} == set(range(len(made.target))), made


@pytest.mark.full
def test_text_is_clean(drawn: list[grammar.Sentence]) -> None:
    for made in drawn:
        for side in (made.source, made.target):
            text = " ".join(side)
            assert text[0].isupper()
            assert text == " ".join(text.split())
            assert "," not in text.replace(", ", "")
            assert not set(".?") & set(text[:-1])
            assert text[-1].isalpha() or text[-1] == "?"
            assert (text[-1] == "?") == (made.source[-1][-1] == "?")
        assert set(made.lemmas) <= lexicon.lemmas()


@pytest.mark.full
def test_german_forms_hold_all_that_is_said(drawn: list[grammar.Sentence]) -> None:
    forms = german_forms()
    for made in drawn:
        first, *rest = (word.rstrip(",?") for word in made.target)
        assert {first, first[0].lower() + first[1:]} & forms, first
        assert set(rest) <= forms, set(rest) - forms


def test_the_language_is_large() -> None:
    assert len(lexicon.lemmas()) >= 600
    assert len(lexicon.nouns()) >= 250
    assert len({verb.lemma for verb in lexicon.verbs()}) >= 150
    assert len({adjective.lemma for adjective in lexicon.adjectives()}) >= 80
    assert len(grammar.constructions()) >= 100


@pytest.mark.full
def test_millions_of_sentences_are_possible() -> None:
    """Of N equally likely sentences, n draws repeat about n * n / 2N: fewer than 8 of 4,000 mean a million or more."""
    for name in ("and.clause", "but.clause", "that", "whether"):
        family, rest = grammar.constructions()[name]
        draw = Key(2, (name,)).generator()
        made = [family(Scene(draw), *rest) for _ in range(4_000)]
        texts = [tuple(word.text for word in draft[0]) for draft in made if draft]
        assert len(texts) - len(set(texts)) < 8, name


def test_the_same_sentences_come_at_every_call() -> None:
    assert list(grammar.sentences("test", 50)) == list(grammar.sentences("test", 50))
    assert list(grammar.sentences("train", 50))[:20] == list(grammar.sentences("train", 20))


@pytest.mark.full
def test_a_held_out_combination_is_met_in_its_split_alone(splits: dict[str, list[grammar.Sentence]]) -> None:
    for split, sentences in splits.items():
        for made in sentences:
            homes = {grammar.split_of(lemma, made.construction) for lemma in made.lemmas}
            assert homes <= {"train", split}
            assert split in homes or not made.lemmas
    names = grammar.constructions()
    shares = Counter(grammar.split_of(lemma, name) for lemma in lexicon.lemmas() for name in names)
    assert 0.07 < (shares["valid"] + shares["test"]) / shares.total() < 0.09


@pytest.mark.full
def test_no_sentence_comes_twice(splits: dict[str, list[grammar.Sentence]]) -> None:
    sources = Counter(made.source for sentences in splits.values() for made in sentences)
    assert max(sources.values()) == 1


@pytest.mark.full
def test_training_meets_every_word_and_construction_often(splits: dict[str, list[grammar.Sentence]]) -> None:
    words = Counter(lemma for made in splits["train"] for lemma in made.lemmas)
    names = Counter(made.construction for made in splits["train"])
    assert set(words) == lexicon.lemmas()
    assert min(words.values()) >= 4  # in a third of the usual size
    assert set(names) == set(grammar.constructions())
    assert min(names.values()) >= 50


@pytest.mark.parametrize("split", ["valid", "test", "train"])
def test_the_files_that_are_shipped_are_what_it_composes(split: str) -> None:
    columns = zip(*daily_columns(split), strict=True)
    for shipped, composed in zip(columns, rows(split, 3_000), strict=split != "train"):
        assert "\t".join(shipped) + "\n" == composed


@pytest.mark.full
def test_the_whole_of_what_is_trained_on_is_what_it_composes() -> None:
    shipped = ["\t".join(row) + "\n" for row in zip(*daily_columns("train"), strict=True)]
    assert shipped == list(rows("train"))
