"""Markdown of a turn, rendered without losing a character: bold text is bold, code is in a box.

The marks (`**`, `#`, the address of a link) stay visible, in a paler colour. Nothing becomes a link, an image
or HTML, so nothing loads; every piece is escaped before it is put in a span. A long text is folded at the end
of a line or word.
"""

import re
from collections.abc import Iterator

from markupsafe import Markup

from dialeval.dialogues.visibility import shown

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
