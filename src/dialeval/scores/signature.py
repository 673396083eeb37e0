"""How a number was made, in one line that travels with it."""

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from dialeval.errors import DataError


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

    def __str__(self) -> str:
        return "|".join([self.name, *(f"{key}:{value}" for key, value in self.fields)])


def render(value: object) -> str:
    """Write one setting so that no two different values look alike.

    >>> render(None), render("-"), render(0.1), render(("a", "b,c"))
    ('-', '%2D', '0.1', 'a,b%2Cc')
    """
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return "%2D" if value == "-" else "".join(map(_escape, value))
        case tuple() | list():
            return ",".join(render(item).replace(",", "%2C") for item in value) + (
                "," if len(value) == 1 else ""
            )
        case Mapping():
            return "&".join(f"{_plain(key)}={_plain(item)}" for key, item in value.items())
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            items = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
            return f"{type(value).__name__}({render(items)})"
        case _:
            return "".join(map(_escape, repr(value)))


def _plain(value: object) -> str:
    return render(value).replace("&", "%26").replace("=", "%3D")


def _escape(character: str) -> str:
    if character in "%|" or not character.isprintable():
        return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
    return character
