"""The signature of a source: how its numbers were made, in one line that travels with them.

For ratings by people it carries the taxonomy of Gandhe and Traum (2014), `EvaluationSchema`: what is
measured, who judges, how the contexts came about, whether the judge took part, and what a judgement is about.
"""

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from dialeval.errors import DataError

ANNOTATION, CONVERSATION = "annotation.v1", "conversation.v1"
COLLECTED = (ANNOTATION, CONVERSATION)  # ratings by people, in studies of ours
FOREIGN = "column.v1"  # a column of somebody else's table


@dataclass(frozen=True, slots=True)
class Signature:
    """Name, version and every setting behind a source of scores.

    The long form is for the record, the short form for a table:

    >>> signature = Signature.of("bleu.v1", {"order": 4, "lowercase": False})
    >>> str(signature)
    'bleu.v1|order:4|lowercase:false'
    >>> signature.short
    'bleu.v1#264f3846'
    >>> Signature.parse(str(signature)) == signature
    True
    """

    name: str
    fields: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, fields: Mapping[str, object]) -> "Signature":
        """Make a signature; equal fields give equal strings and different fields different ones."""
        return cls(name, tuple((key, render(value)) for key, value in fields.items()))

    @classmethod
    def parse(cls, text: str) -> "Signature":
        """Read the long form back."""
        name, *parts = text.split("|")
        pairs = [part.partition(":") for part in parts]
        if not name or not all(colon for _, colon, _ in pairs):
            raise DataError(f"not a signature: {text[:80]!r}", fix="name.v1|field:value|…")
        return cls(name, tuple((key, value) for key, _, value in pairs))

    @property
    def short(self) -> str:
        """The name and eight hexadecimal digits of the whole."""
        return f"{self.name}#{hashlib.sha256(str(self).encode()).hexdigest()[:8]}"

    def better(self, dimension: str) -> str:
        """Which way is good in a dimension: `higher` unless the signature says `lower` or `neither`.

        >>> signature = Signature.of("similarity.v1", {"better": {"self": "lower"}})
        >>> str(signature), signature.better("self"), signature.better("user")
        ('similarity.v1|better:self=lower', 'lower', 'higher')
        >>> Signature.parse("repetition.v1|better:lower").better("repetition")
        'lower'
        """
        found = self.of_dimension("better", dimension)
        return "higher" if found is None else found

    def of_dimension(self, field: str, dimension: str) -> str | None:
        """Return what a field says of a dimension: one value for all, or one for each that it names."""
        said = dict(self.fields).get(field)
        if said is None or "=" not in said:
            return said
        named = {key: value for key, _, value in (part.partition("=") for part in said.split(","))}
        return named.get(render(dimension))

    def joined(self, other: "Signature") -> "Signature":
        """Return what two ways of collecting have in common, and both values where they differ.

        >>> one = Signature.of("annotation.v1", {"scheme": "dialogue", "context": "static"})
        >>> str(one.joined(Signature.of("annotation.v1", {"scheme": "coherence", "context": "static"})))
        'annotation.v1|scheme:coherence,dialogue|context:static'
        """
        mine, theirs = dict(self.fields), dict(other.fields)
        values = {
            key: sorted({part for found in (mine, theirs) if key in found for part in found[key].split(",")})
            for key in (*mine, *theirs)
        }
        return Signature(self.name, tuple((key, ",".join(parts)) for key, parts in values.items()))

    def __str__(self) -> str:
        return "|".join([self.name, *(f"{key}:{value}" for key, value in self.fields)])


def add_signature(signatures: dict[str, Signature], source: str, made: Signature) -> bool:
    """Add what a part of a table says of a source; False where it was made in another way.

    A person may have taken part in several studies of ours, and is one source all the same.

    >>> found = {"human:ann": Signature.parse("annotation.v1|scheme:a")}
    >>> add_signature(found, "human:ann", Signature.parse("annotation.v1|scheme:b")), str(found["human:ann"])
    (True, 'annotation.v1|scheme:a,b')
    >>> add_signature(found, "human:ann", Signature.parse("length.v1"))
    False
    """
    there = signatures.setdefault(source, made)
    if there != made and there.name == made.name and made.name in COLLECTED:
        signatures[source] = there.joined(made)
        return True
    return there == made


def better(signatures: Mapping[str, Signature | str], source: str, dimension: str) -> str:
    """Which way is good in a column of scores; ratings, and whatever comes unsigned, are meant to be high.

    >>> better({"similarity": "similarity.v1|better:self=lower"}, "similarity", "self")
    'lower'
    >>> better({"judge": "not a signature"}, "judge", "self"), better({}, "human:ann", "self")
    ('higher', 'higher')
    """
    made = signatures.get(source, "")
    try:
        return (Signature.parse(made) if isinstance(made, str) else made).better(dimension)
    except DataError:
        return "higher"


def threshold(signatures: Mapping[str, Signature | str], source: str, dimension: str) -> float:
    """From which value on a column of faults counts one: one half unless its signature says otherwise.

    >>> made = {"faults": "faults.v3|threshold:ignores=0.3"}
    >>> threshold(made, "faults", "ignores"), threshold(made, "rules", "empty")
    (0.3, 0.5)
    """
    made = signatures.get(source, "")
    try:
        found = (Signature.parse(made) if isinstance(made, str) else made).of_dimension(
            "threshold", dimension
        )
        return float(found) if found else 0.5
    except (DataError, ValueError):
        return 0.5


def render(value: object) -> str:
    """Write one setting so that no two different values look alike.

    Text is written as it stands, but for characters with a meaning here (`%XX`); text that would read as
    something else ("-", "true", "12") has its first character escaped. What holds other values (a tuple, a
    mapping, a dataclass) stands in parentheses where it is itself held by another.

    >>> render(None), render("-"), render(0.1), render(("a", "b,c"))
    ('-', '%2D', '0.1', 'a,b%2Cc')
    >>> render(("a", ("b", 1))), render({"k": "1"})
    ('a,(b,1)', 'k=%31')
    """
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case int():
            return int.__repr__(value)
        case float():  # numpy's float is one, too, but writes itself otherwise
            return float.__repr__(value)
        case str():
            text = "".join(map(_escape, value))
            return f"%{ord(text[0]):02X}{text[1:]}" if _reads_otherwise(text) else text
        case tuple() | list():
            return ",".join(map(_held, value)) + ("," if len(value) == 1 else "") if value else "()"
        case set() | frozenset():
            return f"set({','.join(sorted(map(_held, value)))})"
        case Mapping():
            return ",".join(sorted(f"{_held(key)}={_held(item)}" for key, item in value.items())) or "(=)"
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            items = [f"{item.name}={_held(getattr(value, item.name))}" for item in dataclasses.fields(value)]
            return f"{type(value).__name__}({','.join(items)})"
        case _:
            return "".join(map(_escape, repr(value)))


def _held(value: object) -> str:
    """Write a value inside another one."""
    text = render(value)
    return f"({text})" if isinstance(value, (tuple, list, Mapping)) else text


def _reads_otherwise(text: str) -> bool:
    if text in ("-", "true", "false") or re.fullmatch(r"-?[0-9]+", text):
        return True
    try:
        return text == repr(float(text))
    except ValueError:
        return False


def _escape(character: str) -> str:
    if character in "%|,=()" or not character.isprintable():
        return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
    return character


Setting = Literal["static", "dynamic", "static and dynamic", "not said"]
Participation = Literal["participant", "bystander", "participant and bystander", "none"]
PARTICIPANT = "human:user"


@dataclass(frozen=True, slots=True)
class EvaluationSchema:
    """The five decisions behind an evaluation.

    Attributes:
        metric: What is measured: the dimension that counts as gold, or what is asked or computed.
        evaluator: Who judges: people, programs, or both of them on the same units.
        context: Whether the system's own replies became the context (`dynamic`) or not (`static`).
        participation: Whether those who judge took part in the dialogues or looked on.
        level: What one judgement is about.
    """

    metric: str
    evaluator: Literal["human", "automatic", "human and automatic"]
    context: Setting
    participation: Participation
    level: Literal["turn", "dialogue", "system"]

    def sign(self, name: str, scheme: str) -> Signature:
        """Return the signature of ratings collected in this way; metric and level show in their rows.

        >>> schema = EvaluationSchema("coherence", "human", "static", "bystander", "turn")
        >>> str(schema.sign("annotation.v1", "coherence"))
        'annotation.v1|scheme:coherence|context:static|participation:bystander'
        """
        given = {"scheme": scheme, "context": self.context, "participation": self.participation}
        return Signature.of(name, given)


def setting_in(signatures: Iterable[Signature]) -> Setting:
    """Return how the contexts of some ratings came about, as their signatures say.

    >>> schema = EvaluationSchema("coherence", "human", "dynamic", "bystander", "dialogue")
    >>> made = schema.sign("annotation.v1", "x")
    >>> setting_in([made]), setting_in([Signature("judge.v1")])
    ('dynamic', 'not said')
    """
    said = {part for one in signatures for part in dict(one.fields).get("context", "").split(",")}
    known = said & {"static", "dynamic"}
    if len(known) > 1 or "static and dynamic" in said:
        return "static and dynamic"
    return "static" if "static" in known else "dynamic" if known else "not said"
