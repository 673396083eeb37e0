"""The signature of a source: how its numbers were made, in one line.

For ratings by people it contains the taxonomy of Gandhe and Traum (2014), `EvaluationSchema`: metric,
evaluator, context, participation and level.
"""

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from dialeval.errors import DataError

ANNOTATION, CONVERSATION = "annotation.v1", "conversation.v1"
COLLECTED = (ANNOTATION, CONVERSATION)  # ratings by people, collected with dialeval
FOREIGN = "column.v1"  # a column of somebody else's table


@dataclass(frozen=True, slots=True)
class Signature:
    """Name, version and all settings of a source, in a long form for files and a short one for tables.

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
        """Return a signature; equal fields give equal strings and different fields different ones."""
        return cls(name, tuple((key, render(value)) for key, value in fields.items()))

    @classmethod
    def parse(cls, text: str) -> "Signature":
        """Parse the long form."""
        name, *parts = text.split("|")
        pairs = [part.partition(":") for part in parts]
        if not name or not all(colon for _, colon, _ in pairs):
            raise DataError(f"not a signature: {text[:80]!r}", fix="name.v1|field:value|…")
        return cls(name, tuple((key, value) for key, _, value in pairs))

    @property
    def short(self) -> str:
        """The name and eight hexadecimal digits of the hash of the long form."""
        return f"{self.name}#{hashlib.sha256(str(self).encode()).hexdigest()[:8]}"

    def better(self, dimension: str) -> str:
        """Return the good direction of a dimension: `higher` unless the signature says `lower` or `neither`.

        >>> signature = Signature.of("similarity.v1", {"better": {"self": "lower"}})
        >>> str(signature), signature.better("self"), signature.better("user")
        ('similarity.v1|better:self=lower', 'lower', 'higher')
        >>> Signature.parse("repetition.v1|better:lower").better("repetition")
        'lower'
        """
        direction = self.of_dimension("better", dimension)
        return "higher" if direction is None else direction

    def of_dimension(self, field: str, dimension: str) -> str | None:
        """Return the value of a field for a dimension: one value for all, or one for each that it names."""
        value = dict(self.fields).get(field)
        if value is None or "=" not in value:
            return value
        named = {key: value for key, _, value in (part.partition("=") for part in value.split(","))}
        return named.get(render(dimension))

    def joined(self, other: "Signature") -> "Signature":
        """Return the signature with the values of both, where they differ.

        >>> own = Signature.of("annotation.v1", {"scheme": "dialogue", "context": "static"})
        >>> str(own.joined(Signature.of("annotation.v1", {"scheme": "coherence", "context": "static"})))
        'annotation.v1|scheme:coherence,dialogue|context:static'
        """
        mine, theirs = dict(self.fields), dict(other.fields)
        values = {
            key: sorted(
                {part for fields in (mine, theirs) if key in fields for part in fields[key].split(",")}
            )
            for key in (*mine, *theirs)
        }
        return Signature(self.name, tuple((key, ",".join(parts)) for key, parts in values.items()))

    def __str__(self) -> str:
        return "|".join([self.name, *(f"{key}:{value}" for key, value in self.fields)])


def add_signature(signatures: dict[str, Signature], source: str, signature: Signature) -> bool:
    """Add the signature of a source; return False if the source has a different one already.

    Signatures of a person who took part in several annotation projects are joined.

    >>> signatures = {"human:ann": Signature.parse("annotation.v1|scheme:a")}
    >>> add_signature(signatures, "human:ann", Signature.parse("annotation.v1|scheme:b"))
    True
    >>> str(signatures["human:ann"]), add_signature(signatures, "human:ann", Signature.parse("length.v1"))
    ('annotation.v1|scheme:a,b', False)
    """
    existing = signatures.setdefault(source, signature)
    if existing != signature and existing.name == signature.name and signature.name in COLLECTED:
        signatures[source] = existing.joined(signature)
        return True
    return existing == signature


def better(signatures: Mapping[str, Signature | str], source: str, dimension: str) -> str:
    """Return the good direction of a column; `higher` for ratings and sources without a signature.

    >>> better({"similarity": "similarity.v1|better:self=lower"}, "similarity", "self")
    'lower'
    >>> better({"judge": "not a signature"}, "judge", "self"), better({}, "human:ann", "self")
    ('higher', 'higher')
    """
    return _signature_of(signatures, source).better(dimension)


def threshold(signatures: Mapping[str, Signature | str], source: str, dimension: str) -> float:
    """Return the value from which a column of faults counts a fault: .5 unless its signature says otherwise.

    >>> signatures = {"faults": "faults.v5|threshold:ignores=0.3"}
    >>> threshold(signatures, "faults", "ignores"), threshold(signatures, "rules", "empty")
    (0.3, 0.5)
    """
    try:
        return float(_signature_of(signatures, source).of_dimension("threshold", dimension) or 0.5)
    except ValueError:
        return 0.5


def _signature_of(signatures: Mapping[str, Signature | str], source: str) -> Signature:
    """Return the signature of a source, without fields if it is missing or malformed."""
    signature = signatures.get(source, "")
    try:
        return Signature.parse(signature) if isinstance(signature, str) else signature
    except DataError:
        return Signature("")


def render(value: object) -> str:
    """Return a setting as text; different values give different texts.

    Characters with a meaning here are escaped in strings (`%XX`), and so is the first character of a string
    that would read as another type ("-", "true", "12"). Nested tuples and mappings are put in parentheses.

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
    """Return a nested value as text."""
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
        metric: What is measured: the dimension of the gold, or what is asked or computed.
        evaluator: Who judges: people, programs, or both on the same units.
        context: Whether the system's own replies became the context (`dynamic`) or not (`static`).
        participation: Whether the evaluators took part in the dialogues.
        level: The level of a judgement.
    """

    metric: str
    evaluator: Literal["human", "automatic", "human and automatic"]
    context: Setting
    participation: Participation
    level: Literal["turn", "dialogue", "system"]

    def sign(self, name: str, scheme: str) -> Signature:
        """Return the signature of ratings collected in this way; metric and level are in their rows.

        >>> schema = EvaluationSchema("coherence", "human", "static", "bystander", "turn")
        >>> str(schema.sign("annotation.v1", "coherence"))
        'annotation.v1|scheme:coherence|context:static|participation:bystander'
        """
        fields = {"scheme": scheme, "context": self.context, "participation": self.participation}
        return Signature.of(name, fields)


def setting_in(signatures: Iterable[Signature]) -> Setting:
    """Return the context setting of ratings, by their signatures.

    >>> schema = EvaluationSchema("coherence", "human", "dynamic", "bystander", "dialogue")
    >>> setting_in([schema.sign("annotation.v1", "x")]), setting_in([Signature("judge.v1")])
    ('dynamic', 'not said')
    """
    fields = (dict(signature.fields).get("context", "") for signature in signatures)
    contexts = {part for field in fields for part in field.split(",")}
    settings = contexts & {"static", "dynamic"}
    if len(settings) > 1 or "static and dynamic" in contexts:
        return "static and dynamic"
    return "static" if "static" in settings else "dynamic" if settings else "not said"
