"""Rules for failing replies, to be read by people: over the turns before, the reply, and the next turn.

A rule is a cue, not a verdict. It knows words and no meaning: it misses what needs understanding, and now and
then it finds a failure where there is none. It is good at finding the same failure again and again.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from dialeval.studies.utterances import EarlierTurns, Utterance, listed, topics

FEWEST_WORDS = 3  # shorter replies ("yes", "thank you") may well come again
RECURS = 3  # dialogues with one and the same reply
_ALIKE = 0.6  # share of three-word runs
_FEWEST_RUNS = 4

_ANSWERS = listed(
    """absolutely because both cannot cant cause certainly correct course definitely depends dont either
    exactly false guess idk maybe nah neither never no nobody none nope not nothing ok okay perhaps probably
    right sure true ya yeah yep yes yup"""
)
_REFERS = listed("he her him his it same she that their them there these they this those")
_PLACES = listed("across around at behind by from in near next on over to under")
_SELF = listed("i im me mine my our us we")
_OTHER = listed("u ur you your yours")
_UNFINISHED = listed("a an and because but if my or our than the their your")
_HOW_MUCH = re.compile(
    r"\b(?:how (?:many|much|old|long|far|often|tall|big)|when|what (?:time|year|day|age))\b"
)
_NUMBER = re.compile(r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|hundred|once|twice)\b")
_HELD_AGAINST = re.compile(
    r"\b(?:you|u) (?:(?:just|only|also) )?(?:said|told me)\b"
    r"(?! ?(?:that|it|this)?\W*(?:already|before|again|twice|earlier|$))"
    r"|\byou (?:just|already) (?:agreed|confirmed|promised)\b"
    r"|\b(?:didn't|did) you (?:just )?(?:say|tell me)\b|\bcontradict|\bmake up your mind\b"
)
_PHRASES = (
    r"(?:not|n't|never) (?:what|the thing) i (?:asked|said|meant|mean|wanted)",
    r"you (?:just |already )?(?:said|asked|told me)(?: (?:that|it|this))? (?:already|before|again|twice)",
    r"you(?:'ve| have)? (?:just |already )(?:said|asked|told me|mentioned) (?:that|it|this|me)",
    r"you (?:keep|kept) (?:saying|asking|repeating|changing|talking)|you(?:'re| are)? (?:just )?repeat\w*",
    r"stop (?:saying|asking|repeating|talking)|shut up|leave me alone",
    r"i (?:just|already) (?:told|said|asked|answered)|i (?:said|told you)(?: \w+){0,3} already",
    r"we (?:just|already) (?:agreed|said|discussed)",
    r"(?:did|do|does)(?: not|n't) (?:even )?answer|answer (?:my|the) question",
    r"what (?:are|r) (?:you|u) (?:even )?(?:talking about|saying|on about)|what the (?:hell|heck|fuck)",
    r"(?:makes?|making) no sense|(?:not|n't) (?:make|making) (?:any |much )?sense",
    r"(?:nothing|what does (?:that|it|this) have) to do with|off[- ]topic|irrelevant|not related",
    r"(?:why|you) (?:are you |did you |just )?(?:chang\w*|switch\w*) (?:the |my )?(?:subject|topic)",
    r"are (?:you|u) (?:even )?(?:listening|reading|drunk|broken|crazy)",
    r"(?:you|u)(?:'re| are| r) (?:\w+ )?(?:wrong|confus\w+|stupid|dumb|useless|rude|boring|annoying|weird)",
    r"(?:that|this|it)(?:'s| is) (?:\w+ )?(?:wrong|stupid|useless|nonsense|annoying|rude|random)",
    r"(?:stupid|dumb|useless|terrible) (?:bot|robot|machine|chatbot|answer)",
    r"i (?:do not|don't|dont|did not|didn't) (?:understand|get) (?:you|what you|that|it)",
)
_OBJECTION = re.compile(r"(?:\b|(?=n't))(?:" + "|".join(_PHRASES) + r")\b")
_WHOLE_OBJECTION = re.compile(
    r"(?:(?:ok|okay|please|no|now|oh|just|um|uh) )*"
    r"(?:huh|what|wtf|stop(?: it| that| please| now)?|never ?mind|forget it|whatever|pardon|eh|come again|"
    r"excuse me|wrong|nonsense|what do you mean(?: by that)?|i(?:'m| am) confused|confused)"
)


def repeats(before: EarlierTurns, reply: Utterance, after: Utterance | None = None) -> bool:
    """Whether a reply repeats a turn of its speaker: word for word, or in most of its three-word runs.

    >>> before = EarlierTurns.of(("bot", "I love my two cats."), ("user", "Nice. What do you do?"))
    >>> [repeats(before, Utterance("bot", text)) for text in ("I love my two cats!", "I bake bread.")]
    [True, False]
    """
    if len(reply.words) < FEWEST_WORDS:
        return False
    return before.holds(reply.speaker, reply.plain) or any(
        _is_copy(reply, earlier) for earlier in before.by(reply.speaker)
    )


def ignores_question(before: EarlierTurns, reply: Utterance, after: Utterance | None = None) -> bool:
    """Whether a reply passes over the question before it.

    It shares no topic word with that turn, does not point back to it ("it", "they"), says neither yes nor no
    nor why, and, asked about itself, does not speak of itself; or it only asks something else.

    >>> before = EarlierTurns.of(("user", "Which planet is the largest?"))
    >>> ignores_question(before, Utterance("bot", "My sister plays the violin every evening."))
    True
    >>> ignores_question(before, Utterance("bot", "Jupiter is the largest planet."))
    False
    """
    asked = before.last
    if asked is None or asked.speaker == reply.speaker or not asked.questions or not reply.topics:
        return False
    if reply.topics & asked.topics or reply.bases & (_ANSWERS | _REFERS) or "n't" in reply.text:
        return False
    if reply.only_asks:
        return True
    question = " ".join(asked.questions)
    if not topics(question) or len(reply.words) <= 4:
        return False
    counted = _HOW_MUCH.search(question) and _NUMBER.search(reply.text)
    placed = "where" in question and reply.words[0] in _PLACES
    of_itself = asked.bases & _OTHER and reply.bases & _SELF
    return not counted and not placed and not of_itself


def leaves_topic(before: EarlierTurns, reply: Utterance, after: Utterance | None = None) -> bool:
    """Whether a reply of more than four words shares no topic word with the two turns before it.

    A reply that points back ("it", "they") or answers ("yes") stays on topic.

    >>> before = EarlierTurns.of(("bot", "A garden?"), ("user", "I grow tomatoes on the balcony."))
    >>> leaves_topic(before, Utterance("bot", "The museum opens its doors on Monday morning."))
    True
    >>> leaves_topic(before, Utterance("bot", "Tomatoes need plenty of sun, I hear."))
    False
    """
    heard = list(before.turns)[-2:]
    about = frozenset[str]().union(*(turn.topics for turn in heard))
    if len(reply.words) <= 4 or len(reply.topics) < 2 or not about or reply.topics & about:
        return False
    return not reply.bases & (_REFERS - {"its"}) and not reply.bases & _ANSWERS


def contradicts(before: EarlierTurns, reply: Utterance, after: Utterance | None = None) -> bool:
    """Whether a reply denies what its speaker stated, or the other way round; or the user says it does.

    >>> before = EarlierTurns.of(("bot", "I have a dog."), ("user", "What is it called?"))
    >>> [contradicts(before, Utterance("bot", text)) for text in ("I don't have a dog.", "Rex.")]
    [True, False]
    >>> contradicts(before, Utterance("bot", "Cats!"), Utterance("user", "But you said you had a dog"))
    True
    """
    if after is not None and _HELD_AGAINST.search(after.text):
        return True
    earlier = [
        turn
        for turn in before.by(reply.speaker)
        if (turn.denies or reply.denies) and not turn.topics.isdisjoint(reply.topics)
    ]
    return any(
        new.denies != old.denies
        and new.people == old.people
        and new.topics & old.topics
        and 2 * len(new.content & old.content) >= len(new.content | old.content)
        for turn in earlier
        for old in turn.statements
        for new in reply.statements
    )


def objects(before: EarlierTurns, reply: Utterance, after: Utterance | None = None) -> bool:
    """Whether the next user turn complains about the reply; "no" to a question is no complaint.

    >>> reply = Utterance("bot", "Do you like dogs?")
    >>> said = ("That's not what I asked.", "Huh?", "No!")
    >>> [objects(EarlierTurns(), reply, Utterance("user", text)) for text in said]
    [True, True, False]
    """
    if after is None:
        return False
    return bool(_OBJECTION.search(after.text) or _WHOLE_OBJECTION.fullmatch(after.plain))


def says_again(before: EarlierTurns, reply: Utterance, after: Utterance | None = None) -> bool:
    """Whether the user's next turn repeats the user's turn before the reply.

    >>> before = EarlierTurns.of(("user", "Where is the bus stop?"))
    >>> reply = Utterance("bot", "I like buses.")
    >>> says_again(before, reply, Utterance("user", "where is the bus stop??"))
    True
    """
    if after is None or len(after.words) < FEWEST_WORDS or not after.plain:
        return False
    earlier = before.by(after.speaker)[:1]
    return any(after.plain == turn.plain or _is_copy(after, turn) for turn in earlier)


def breaks_off(before: EarlierTurns, reply: Utterance, after: Utterance | None = None) -> bool:
    """Whether a reply says nothing or stops in mid-sentence: after a comma, a dash, a word like "the".

    >>> replies = ("", "...", "I went to the", "Well,", "Fine")
    >>> [breaks_off(EarlierTurns(), Utterance("bot", text)) for text in replies]
    [True, True, True, True, False]
    """
    end = reply.text.rstrip()
    if not end or all(character in ".,;:!?-_*\"'\u2026 " for character in end):
        return "?" not in end
    if end[-1] in ",;\u3001\uff0c" or (end[-1] in "-\u2013\u2014" and end[-2:-1].isspace()):
        return True
    return (
        before.english
        and bool(reply.words)
        and end.endswith(reply.words[-1])
        and (reply.words[-1] in _UNFINISHED and len(reply.words) > 1)
    )


Finds = Callable[[EarlierTurns, Utterance, Utterance | None], bool]


@dataclass(frozen=True, slots=True)
class FailureRule:
    """A rule with what a reader must know of it.

    Attributes:
        name: The failure it looks for.
        explanation: One line for the reader of a report.
        finds: The rule itself; None for what only the whole run can tell.
        english: Whether it needs English words.
        reaction: Whether it reads the next user turn, and so can say nothing where there is none.
    """

    name: str
    explanation: str
    finds: Finds | None
    english: bool = False
    reaction: bool = False


RULES = (
    FailureRule("repetition", "the reply says again what its speaker said before", repeats),
    FailureRule(
        "ignored question",
        "the user asked; the reply has no word of the question and no yes, no or because",
        ignores_question,
        english=True,
    ),
    FailureRule(
        "off-topic",
        "the reply shares no topic word with the two turns before it and does not point back to them",
        leaves_topic,
        english=True,
    ),
    FailureRule(
        "contradiction cue",
        "the reply denies what its speaker stated, or the user says \u201cyou said \u2026\u201d",
        contradicts,
        english=True,
    ),
    FailureRule(
        "user objects",
        "the user goes on with words like \u201cnot what I asked\u201d, \u201chuh?\u201d or \u201cstop\u201d",
        objects,
        english=True,
        reaction=True,
    ),
    FailureRule(
        "user says it again",
        "the user\u2019s next turn repeats the one before the reply",
        says_again,
        reaction=True,
    ),
    FailureRule("empty or cut off", "the reply has no words, or stops in mid-sentence", breaks_off),
    FailureRule(
        "same reply to everything",
        f"the same system gives this very reply in {RECURS} dialogues or more",
        None,
    ),
)


def _is_copy(turn: Utterance, earlier: Utterance) -> bool:
    runs = turn.trigrams
    return len(runs) >= _FEWEST_RUNS and len(runs & earlier.trigrams) >= _ALIKE * len(runs)
