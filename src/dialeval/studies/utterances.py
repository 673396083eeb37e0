"""A turn as rules see it: its words, topics and statements; and the turns before it.

Words are compared by their beginnings, not understood. Everything is made when a rule first asks, and only a
few earlier turns are kept, so that a dialogue of any length is read in one go.
"""

import re
from collections import deque
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import NamedTuple

LOOK_BACK = 20  # turns that a reply is compared with; exact copies are found at any distance
_MOST_CHARACTERS = 2_000  # of a turn that are looked at
_FEW_WORDS, _MANY_WORDS, _ENGLISH_SHARE = 12, 150, 0.2  # to tell English by

# Scripts that put no blank between words: each of their characters counts as a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:'[^\W_{_UNSPACED}]+)*")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_ENDING = re.compile(r"(?<=\w\w\w)(?:ies|ied|ing|ie|ed|es|s|e|y)$")


def listed(words: str) -> frozenset[str]:
    """Make a set of words written with blanks between them."""
    return frozenset(words.split())


GRAMMAR = listed(
    """a about above after again all also although am an and another any anyone anything are aren as
    at be because been before being below between both but by ca can cant could couldn d did didn
    didnt do does doesn doesnt doing don done dont down during each either else even ever every
    everyone everything few for from get gets getting give go goes going gone gonna got had hadn has
    hasn have haven having he hello her here hers hey hi him his how i if im in into is isn isnt it
    its itself let lets ll m may me might mine more most must my myself no nor not now of off oh ok
    okay on once one only or other our out over own quite rather re s same sha shall she should
    shouldn since so some someone something such t than that the their them then there these they
    this those though through to too under until up upon us ve very wanna was wasn we were weren
    what when where which while who whom whose why will with wo won wont would wouldn yeah yep yes
    yet you your yours yourself"""
)
SMALL_TALK = listed(
    """actually ago agree alright always amazing ask asked awesome bad best better big bit bye came
    cause come cool course day days definitely enjoy exactly excited fan far favorite favourite feel
    find fine first found friend fun funny glad good goodbye great guess guy guys haha happen happy
    hate hear heard help hmm hope idea interested interesting just keep kind know last least less
    like liked likes little lol long look looking lot lots love loved loves made make makes making
    man many maybe mean much name need never new next nice old people perhaps person place please
    pretty probably put question read ready really remember right said saw say saying says see seem
    seen sense sometimes sorry sound sounds still stuff sure take talk talking tell thank thanks
    thing things think thought time times today told took totally tried true try two understand use
    used usually wait want wanted way welcome well went without wonder wonderful word work wow wrong
    year years"""
)
_NEGATIONS = listed("aint cannot cant didnt doesnt dont isnt never no nobody none not nothing without wont")


class Statement(NamedTuple):
    """A sentence that asks nothing: who it speaks of, what about, and whether it denies."""

    people: frozenset[str]
    content: frozenset[str]
    topics: frozenset[str]
    denies: bool


class Utterance:
    """A turn as rules see it: who spoke, and lower-cased text.

    >>> turn = Utterance("bot", "I don't like the cities. Do you like trains?")
    >>> sorted(turn.topics), turn.statements[0].denies
    (['cit', 'train'], True)
    """

    def __init__(self, speaker: str, text: str) -> None:
        self.speaker = speaker
        self.text = text[:_MOST_CHARACTERS].lower().replace("\u2019", "'")

    @cached_property
    def words(self) -> list[str]:
        """All words, in order."""
        return _WORD.findall(self.text)

    @cached_property
    def plain(self) -> str:
        """The words alone, so that copies compare as equal."""
        return " ".join(self.words)

    @cached_property
    def trigrams(self) -> frozenset[tuple[str, str, str]]:
        """Every three words in a row."""
        return frozenset(zip(self.words, self.words[1:], self.words[2:], strict=False))

    @cached_property
    def bases(self) -> frozenset[str]:
        """The words without what an apostrophe adds: `i` for "i'm"."""
        return frozenset(map(_base, self.words))

    @cached_property
    def topics(self) -> frozenset[str]:
        """The beginnings of the words that say what it is about."""
        return _topics(self.words)

    @cached_property
    def denies(self) -> bool:
        """Whether anything in it denies something."""
        return "n't" in self.text or not _NEGATIONS.isdisjoint(self.words)

    @cached_property
    def questions(self) -> list[str]:
        """The sentences that end in a question mark."""
        return [sentence for sentence in self._sentences if "?" in sentence]

    @cached_property
    def only_asks(self) -> bool:
        """Whether there is nothing but questions."""
        return bool(self.questions) and len(self.questions) == sum(map(_has_word, self._sentences))

    @cached_property
    def statements(self) -> list[Statement]:
        """The sentences that ask nothing and are about something."""
        made = (_statement(_WORD.findall(one)) for one in self._sentences if "?" not in one)
        return [statement for statement in made if statement.topics]

    @cached_property
    def _sentences(self) -> list[str]:
        return _SENTENCE.findall(self.text)


class EarlierTurns:
    """The turns up to here: the last ones, and, of each speaker, every text in its plain form.

    >>> before = EarlierTurns.of(("user", "Hi!"), ("bot", "Hello."), ("user", "Any news?"))
    >>> before.last.text, [turn.text for turn in before.by("bot")], before.holds("user", "hi")
    ('any news?', ['hello.'], True)
    """

    def __init__(self, *, english: bool = True) -> None:
        self.english = english
        self.turns: deque[Utterance] = deque(maxlen=LOOK_BACK)
        self._texts: set[tuple[str, str]] = set()

    @classmethod
    def of(cls, *turns: tuple[str, str], english: bool = True) -> "EarlierTurns":
        """Make one of (speaker, text) pairs."""
        made = cls(english=english)
        for speaker, text in turns:
            made.add(Utterance(speaker, text))
        return made

    def add(self, turn: Utterance) -> None:
        """Take one more turn; the oldest of the kept ones may go."""
        self.turns.append(turn)
        self._texts.add((turn.speaker, turn.plain))

    def by(self, speaker: str) -> list[Utterance]:
        """Return what a speaker said lately, the newest first."""
        return [turn for turn in reversed(self.turns) if turn.speaker == speaker]

    def holds(self, speaker: str, plain: str) -> bool:
        """Whether a speaker said just this, however long ago."""
        return (speaker, plain) in self._texts

    @property
    def last(self) -> Utterance | None:
        """The turn that was said last."""
        return self.turns[-1] if self.turns else None


def is_english(texts: Iterable[str]) -> bool:
    """Whether rules about English words apply: Latin letters, and grammar words as often as English has.

    A few words in Latin letters get the benefit of the doubt.

    >>> is_english(["I have two cats and a dog, and they all sleep on my bed every night."])
    True
    >>> is_english(["Ich habe zwei Katzen und einen Hund, die jede Nacht auf meinem Bett schlafen."])
    False
    >>> is_english(["Hi!", "Pizza?"]), is_english(["我有两只猫"])
    (True, False)
    """
    words: list[str] = []
    for text in texts:
        words += _WORD.findall(text[:_MOST_CHARACTERS].lower().replace("\u2019", "'"))
        if len(words) >= _MANY_WORDS:
            break
    if not any("a" <= word[0] <= "z" for word in words):
        return False
    known = sum(_base(word) in GRAMMAR for word in words)
    return len(words) < _FEW_WORDS or known >= _ENGLISH_SHARE * len(words)


def denies(words: list[str]) -> bool:
    """Whether words deny something; a "no" at the beginning answers, it does not deny what follows.

    >>> denies(["no", "i", "love", "it"]), denies(["i", "have", "no", "pets"]), denies(["i", "don't"])
    (False, True, True)
    """
    return any(
        word.endswith("n't") or (word in _NEGATIONS and (place or word != "no"))
        for place, word in enumerate(words)
    )


def topics(text: str) -> frozenset[str]:
    """Return the beginnings of the words that say what a text is about.

    >>> sorted(topics("so, what do you think about old movies and cooking?"))
    ['cook', 'mov']
    """
    return _topics(_WORD.findall(text))


def _statement(words: list[str]) -> Statement:
    bases = set(map(_base, words))
    content = frozenset(_stem(base) for base in bases - GRAMMAR - _NEGATIONS)
    return Statement(frozenset(bases & {"i", "you", "we"}), content, _topics(words), denies(words))


def _topics(words: list[str]) -> frozenset[str]:
    return frozenset(stem for stem in map(_topic, words) if stem)


def _has_word(text: str) -> bool:
    return _WORD.search(text) is not None


@lru_cache(maxsize=65_536)
def _topic(word: str) -> str:
    base = _base(word)
    return "" if base in GRAMMAR or base in SMALL_TALK or base in _NEGATIONS else _stem(base)


@lru_cache(maxsize=65_536)
def _base(word: str) -> str:
    return word[:-3] if word.endswith("n't") else word.partition("'")[0]


def _stem(word: str) -> str:
    return _ENDING.sub("", word)
