"""Markdown drawn over a turn: nothing is lost, nothing becomes markup of ours, long texts are folded."""

import html
import re

import pytest
from payloads import PAYLOADS

from dialeval.reports.text import LONG, draw, visible

TAGS = {"b", "i", "em", "code", "span", "details", "summary"}
FENCED = "Do this:\n\n```py\nprint('<b>')\n```\nThen **that**."


def plain(drawn: str) -> str:
    return html.unescape(re.sub(r"<summary>.*?</summary>|<[^>]+>", "", drawn)).replace("\r\n", "\n")


@pytest.mark.parametrize("text", [*PAYLOADS, FENCED, "**a\nb**", "```\nunclosed", "_a_b_c_ 2*3*4", "# \n| |"])
def test_every_character_stays_and_only_harmless_tags_come(text: str) -> None:
    drawn = str(draw(text))
    assert plain(drawn) == visible(text).replace("\r\n", "\n")
    assert set(re.findall(r"</?([a-z0-9]+)", drawn)) <= TAGS
    assert not re.search(r"<[^>]*(href|src|style|on\w+)=", drawn)


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("**yes** and __no__", "<b><i>**</i>yes<i>**</i></b> and <b><i>__</i>no<i>__</i></b>"),
        ("*a* snake_case_name", "<em><i>*</i>a<i>*</i></em> snake_case_name"),
        ("## Plan", "<b class=h><i>## </i>Plan</b>"),
        ("`x < y`", "<code>`x &lt; y`</code>"),
        ("[here](http://a.b)", "<i>[</i>here<i>](http://a.b)</i>"),
        ("```\n**x**\n```\n", "<code class=box>```\n**x**\n```\n</code>"),
        ("| a | b |\n", "<code class=row>| a | b |\n</code>"),
        ("> said", "<span class=quote>&gt; said</span>"),
    ],
)
def test_what_is_drawn(text: str, drawn: str) -> None:
    assert str(draw(text)) == drawn


def test_long_texts_are_folded_at_a_word_and_not_inside_code() -> None:
    assert "<details" not in draw("word " * (LONG // 5))
    drawn = str(draw("word " * LONG))
    assert drawn.count("<details") == 1 and plain(drawn) == "word " * LONG
    assert re.search(r"[\d,]+ more characters</summary>word", drawn)
    code = "Look:\n```\n" + "x = 1\n" * 200 + "```\n" + "after " * 50
    head, _, rest = str(draw(code)).partition("<details")
    assert head.count("```") == 2 and "after" in rest
