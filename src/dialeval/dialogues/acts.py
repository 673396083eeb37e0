"""The eleven segment acts of FlowEval: what a stretch of a turn does, in three dimensions.

They are data: `acts.toml`, beside this file, says what each one means and gives examples, some with what
was said before, since a bare "Sorry" is an apology after a mishap and a call for help after a mumble.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dialeval.dialogues.dialogue import Turn
from dialeval.errors import DataError

_TAGSET = Path(__file__).with_name("acts.toml")


@dataclass(frozen=True, slots=True)
class ActExample:
    """A segment, and the turn before it where the act cannot be told without."""

    text: str
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """One label: its canonical name, its dimension, what it means, and segments that have it."""

    name: str
    dimension: str
    definition: str
    examples: tuple[ActExample, ...]


@cache
def acts() -> tuple[Act, ...]:
    """Return all acts, in the order of the paper's Table 4.

    >>> acts()[6].name, acts()[6].dimension, acts()[6].examples[0].text
    ('apology', 'social obligation management', "I'm so sorry I forgot your birthday.")
    """
    found = tomllib.loads(_TAGSET.read_text(encoding="utf-8"))["acts"]
    return tuple(
        Act(
            name,
            entry["dimension"],
            entry["definition"],
            tuple(ActExample(example["text"], example.get("before")) for example in entry["examples"]),
        )
        for name, entry in found.items()
    )


ACTS: tuple[str, ...] = (
    "inform",
    "question",
    "directive",
    "commissive",
    "greeting",
    "goodbye",
    "apology",
    "thanking",
    "backchannel-success",
    "backchannel-failure",
    "check-understanding",
)


def folded(label: str) -> str:
    """Spell an act, of whatever inventory, in one way.

    >>> folded("Request_Location")
    'request-location'
    """
    return "-".join(label.lower().replace("_", " ").replace("-", " ").split())


def canonical(label: str) -> str:
    """Return the canonical name of an act: other capitals, `_` or a blank for the hyphen are accepted.

    >>> canonical("Backchannel_Success")
    'backchannel-success'
    """
    name = folded(label)
    if name not in ACTS:
        raise DataError(f"no act {label[:60]!r}; known: {', '.join(ACTS)}", field="act")
    return name


def dimension_of(act: str) -> str:
    """Return the dimension of an act.

    >>> dimension_of("thanking")
    'social obligation management'
    """
    return acts()[ACTS.index(canonical(act))].dimension


@dataclass(frozen=True, slots=True)
class Annotation:
    """A segment as a turn's meta has it: its act as spelt there, and what raters voted (None: skipped)."""

    text: str
    act: str | None
    votes: tuple[str | None, ...] | None = None


def annotations(turn: Turn) -> list[Annotation] | None:
    """Return the annotated segments of a turn, those without text included; None if it was never cut.

    >>> annotations(Turn("user", "Hey.", {"segments": [{"text": "Hey.", "act": "greeting"}]}))
    [Annotation(text='Hey.', act='greeting', votes=None)]
    """
    found = turn.meta.get("segments")
    if found is None:
        return None
    if not isinstance(found, list):
        raise _malformed(found)
    return [_annotation(one) for one in found]


def _annotation(one: object) -> Annotation:
    if not isinstance(one, dict):
        raise _malformed(one)
    text, act, votes = one.get("text"), one.get("act"), one.get("votes")
    known = votes is None or (
        isinstance(votes, list | tuple) and all(vote is None or isinstance(vote, str) for vote in votes)
    )
    if not (isinstance(text, str) and (act is None or isinstance(act, str)) and known):
        raise _malformed(one)
    return Annotation(text, act, None if votes is None else tuple(votes))


def _malformed(found: object) -> DataError:
    return DataError(
        f"not a list of segments: {str(found)[:80]!r}",
        field="meta.segments",
        fix='[{"text": "Hey.", "act": "greeting"}, …], "votes": ["greeting", null] where there are',
    )
