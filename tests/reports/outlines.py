"""The outline of a page, as a parser sees it."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "input", "hr", "path", "use", "line", "rect", "circle"}


class Outline(HTMLParser):
    """Collects tags, ids, and whether every tag is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._take(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._take(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def _take(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.links.add(value or "")


def check_outline(page: str) -> None:
    """Whatever texts a page has, it is well-formed, loads nothing and points to itself only."""
    outline = Outline(page)
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    assert not outline.tags & {"script", "link", "iframe", "object", "embed", "form", "base", "img"}
    assert not any(name.startswith("on") for name in outline.attributes)
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links)
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", page)
