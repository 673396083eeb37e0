"""Text on its way into a page: what cannot be shown is made visible, what is markup is escaped.

Nothing is ever stripped: whoever reads a report must see what the system really said.
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
    """Cut a text, saying so with an ellipsis.

    >>> shorten("a rather long name", 9), shorten("short", 9)
    ('a rather…', 'short')
    """
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def one_line(text: str) -> str:
    """Make visible, on one line: for table cells of formats in which a line end ends the row."""
    return visible(text.translate(_ONE_LINE))


def escape_markdown(text: str) -> str:
    r"""Escape what Markdown or the HTML inside it would take for markup; a line end would end a table row.

    Characters that open an entity or a tag become entities: renderers disagree about backslashes there.

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
    r"""Escape LaTeX's special characters, and the ones that would form ligatures or optional arguments.

    >>> print(escape_latex("50% of $x_1$ & \\input{a}"))
    50\% of \$x\_1\$ \& \textbackslash{}input\{a\}
    """
    return "".join(_LATEX.get(character, character) for character in one_line(text))
