"""Escaping for Markdown and LaTeX; invisible characters are made visible.

Nothing is stripped: a reader must see the exact text of a system.
"""

import re

from dialeval.dialogues.visibility import visible

_ONE_LINE = {0x09: " ", 0x0A: " ", 0x0D: " ", 0x85: " ", 0x2028: " ", 0x2029: " "}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~$@&<>]|:(?=\S)|(?<=www)\.|(?<=WWW)\.)")
_LIST_ITEM = re.compile(r"([-+=]|\d+[.)])(?=\s|$)")
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": r"{-}",
    "[": r"{[}",
    "]": r"{]}",
    "*": r"{*}",
}


def shorten(text: str, limit: int) -> str:
    """Cut a text to a length, with an ellipsis.

    >>> shorten("a rather long name", 9), shorten("short", 9)
    ('a rather…', 'short')
    """
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def one_line(text: str) -> str:
    """Return a text on one line with invisible characters visible, for table cells."""
    return visible(text.translate(_ONE_LINE))


def escape_markdown(text: str) -> str:
    r"""Escape Markdown and HTML, and replace line ends, which would end a table row.

    Characters that open an entity or a tag become entities, because renderers disagree about backslashes
    there.

    >>> print(escape_markdown("a|b *c* <b> [x](y)"))
    a\|b \*c\* &lt;b&gt; \[x\](y)
    >>> escape_markdown("one\ntwo")
    'one two'
    """
    escaped = _MARKDOWN.sub(r"\\\1", one_line(text))
    if match := _LIST_ITEM.match(escaped):
        escaped = f"{escaped[: match.end() - 1]}\\{escaped[match.end() - 1 :]}"
    return escaped.replace("\\&", "&amp;").replace("\\<", "&lt;").replace("\\>", "&gt;")


def escape_latex(text: str) -> str:
    r"""Escape LaTeX's special characters, and those that would form ligatures or optional arguments.

    >>> print(escape_latex("50% of $x_1$ & \\input{a}"))
    50\% of \$x\_1\$ \& \textbackslash{}input\{a\}
    """
    return "".join(_LATEX.get(character, character) for character in one_line(text))
