"""Markdown in a turn, drawn over its own text: bold is bold and code stands in a box, and no character goes.

What was said stays readable as it was said: the marks (`**`, `#`, the address of a link) are there, paler.
Nothing becomes a link, an image or HTML, so nothing loads; every piece is escaped before it is put in a span.
A long text is folded where a line or a word ends.
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
    """Draw a text: Markdown in spans, folded if it is long.

    >>> print(draw("Try **this**: `rm <file>`"))
    Try <b><i>**</i>this<i>**</i></b>: <code>`rm &lt;file&gt;`</code>
    """
    if len(text) <= LONG:
        return _drawn(text)
    cut = _cut(text)
    more = Markup("<details class=long><summary>{:,} more characters</summary>{}</details>")
    return _drawn(text[:cut]) + (more.format(len(text) - cut, _drawn(text[cut:])) if cut < len(text) else "")


def _cut(text: str) -> int:
    """Find where to fold: after a line or a word, and not inside a box of code."""
    place = max(text.rfind("\n", SHOWN // 2, SHOWN), text.rfind(" ", SHOWN // 2, SHOWN)) + 1 or SHOWN
    fences = [match.start() for match in re.finditer(r"^ *(?:```|~~~)", text, re.MULTILINE)]
    if sum(start < place for start in fences) % 2:
        after = [start for start in fences if start >= place]
        place = text.find("\n", after[0]) + 1 or len(text) if after else len(text)
    return place


def _drawn(text: str) -> Markup:
    return Markup("").join(_blocks(text))


def _blocks(text: str) -> Iterator[Markup]:
    """Go through the lines, which keep their ends: a block element swallows its last one."""
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
    made, end = Markup(""), 0
    for found in _INLINE.finditer(text):
        made += _safe(text[end : found.start()]) + _span(found)
        end = found.end()
    return made + _safe(text[end:])


def _span(found: re.Match[str]) -> Markup:
    if found["code"]:
        return Markup("<code>{}</code>").format(_safe(found[0]))
    if mark := found["bold"]:
        return Markup("<b><i>{0}</i>{1}<i>{0}</i></b>").format(mark, _inline(found["b"]))
    if mark := found["em"]:
        return Markup("<em><i>{0}</i>{1}<i>{0}</i></em>").format(mark, _safe(found["e"]))
    opening, address = f"{found['image']}[", f"]{found['address']}"
    return Markup("<i>{}</i>{}<i>{}</i>").format(opening, _inline(found["l"]), _safe(address))


def _safe(text: str) -> Markup:
    """Escape a piece as everything on the page is: what cannot be shown is made visible."""
    return Markup("{}").format(shown(text))
