"""Text from data in reports: escaped for Markdown, LaTeX and HTML, with invisible characters visible.

Nothing is stripped: a reader must see the exact text of a system. `draw` renders the Markdown of a turn as
HTML without losing a character: bold text is bold, code is in a box, and the marks (`**`, `#`, the address of
a link) stay visible in a paler colour. Nothing becomes a link, an image or HTML, so nothing is loaded.
"""

import re
from collections.abc import Iterator

from markupsafe import Markup

from dialeval.dialogues.visibility import shown, visible

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


# --- Markdown as HTML ---------------------------------------------------------------------------------------

LONG, SHOWN = 900, 600  # characters: a longer text is folded after about so many
_FENCE = re.compile(r"(`{3,}|~{3,})[^`]*")
_HEADING = re.compile(r"(#{1,6} +)(.*)", re.DOTALL)
_TABLE = re.compile(r"\s*\|.*\|\s*")
_QUOTE = re.compile(r"\s*>")
_INLINE = re.compile(
    r"(?P<code>`+)(?P<c>[^`\n]+)(?P=code)"
    r"|(?P<bold>\*\*|__)(?=\S)(?P<b>[^\n]+?)(?<=\S)(?P=bold)"
    r"|(?<![\w*])(?P<em>[*_])(?=[^\s*_])(?P<e>[^*_\n]+?)(?<=\S)(?P=em)(?![\w*])"
    r"|(?P<image>!?)\[(?P<l>[^\]\n]+)\](?P<address>\([^)\s]+\))"
)


def draw(text: str) -> Markup:
    """Return a text as HTML: Markdown in spans, folded if it is long.

    >>> print(draw("Try **this**: `rm <file>`"))
    Try <b><i>**</i>this<i>**</i></b>: <code>`rm &lt;file&gt;`</code>
    """
    if len(text) <= LONG:
        return _drawn(text)
    cut = _cut(text)
    more = Markup("<details class=long><summary>{:,} more characters</summary>{}</details>")
    return _drawn(text[:cut]) + (more.format(len(text) - cut, _drawn(text[cut:])) if cut < len(text) else "")


def _cut(text: str) -> int:
    """Return where to fold: after a line or a word, and not inside a code block."""
    index = max(text.rfind("\n", SHOWN // 2, SHOWN), text.rfind(" ", SHOWN // 2, SHOWN)) + 1 or SHOWN
    fences = [match.start() for match in re.finditer(r"^ *(?:```|~~~)", text, re.MULTILINE)]
    if sum(start < index for start in fences) % 2:
        after = [start for start in fences if start >= index]
        index = text.find("\n", after[0]) + 1 or len(text) if after else len(text)
    return index


def _drawn(text: str) -> Markup:
    return Markup("").join(_blocks(text))


def _blocks(text: str) -> Iterator[Markup]:
    """Yield the rendered lines with their ends; a block element swallows its last line end."""
    fence, box = "", list[str]()
    for line in text.splitlines(keepends=True):
        if fence or (opening := _FENCE.fullmatch(line.strip())):
            box.append(line)
            if fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                yield _box(box)
                fence, box = "", []
            elif not fence and opening:
                fence = opening[1]
        elif heading := _HEADING.fullmatch(line):
            yield Markup("<b class=h><i>{}</i>{}</b>").format(_safe(heading[1]), _inline(heading[2]))
        elif _TABLE.fullmatch(line):
            yield Markup("<code class=row>{}</code>").format(_safe(line))
        elif _QUOTE.match(line):
            yield Markup("<span class=quote>{}</span>").format(_inline(line))
        else:
            yield _inline(line)
    if box:
        yield _box(box)


def _box(lines: list[str]) -> Markup:
    return Markup("<code class=box>{}</code>").format(_safe("".join(lines)))


def _inline(text: str) -> Markup:
    drawn, end = Markup(""), 0
    for match in _INLINE.finditer(text):
        drawn += _safe(text[end : match.start()]) + _span(match)
        end = match.end()
    return drawn + _safe(text[end:])


def _span(match: re.Match[str]) -> Markup:
    if match["code"]:
        return Markup("<code>{}</code>").format(_safe(match[0]))
    if mark := match["bold"]:
        return Markup("<b><i>{0}</i>{1}<i>{0}</i></b>").format(mark, _inline(match["b"]))
    if mark := match["em"]:
        return Markup("<em><i>{0}</i>{1}<i>{0}</i></em>").format(mark, _safe(match["e"]))
    opening, address = f"{match['image']}[", f"]{match['address']}"
    return Markup("<i>{}</i>{}<i>{}</i>").format(opening, _inline(match["l"]), _safe(address))


def _safe(text: str) -> Markup:
    """Escape a piece, and make invisible characters visible."""
    return Markup("{}").format(shown(text))
