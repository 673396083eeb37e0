"""Text for HTML pages: control characters are made visible and markup is escaped; nothing is stripped."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

_INVISIBLE = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"}
_INVISIBLE |= {0x7F: 0x2421}
_INVISIBLE |= dict.fromkeys([*range(0x80, 0xA0), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], 0xFFFD)


def visible(text: str) -> str:
    r"""Replace the characters that HTML cannot contain by their Unicode picture, or by U+FFFD.

    >>> visible("a\x00b\x1b[0m"), visible("tab\tand\nline stay")
    ('a␀b␛[0m', 'tab\tand\nline stay')
    """
    return text.translate(_INVISIBLE)


def shown(value: Any) -> Any:
    """Return a template's value as safe text: visible and escaped.

    Meant as the `finalize` of an autoescaping Jinja environment.
    """
    from markupsafe import Markup, escape

    if value is None or isinstance(value, Markup):
        return value
    text = visible(str(value))
    # A parser would turn a bare carriage return into a line feed.
    return Markup(str(escape(text)).replace("\r", "&#13;")) if "\r" in text else text  # noqa: S704


def templates(package: str) -> "Environment":
    """Return the Jinja environment of a package's templates: texts are escaped, unknown names errors."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
