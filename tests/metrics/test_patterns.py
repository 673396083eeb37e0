import re
import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialeval.metrics.patterns import AnyOf

_FILE = tomllib.loads((files("dialeval.metrics") / "rules.toml").read_text(encoding="utf-8"))
_LISTS = {
    name: [
        re.sub(r"<(\w+)>", lambda found: _FILE["classes"][found[1]], pattern)
        for pattern in _FILE["words"][name]
    ]
    for name, patterns in _FILE["words"].items()
    if isinstance(patterns, list) and name != "template"
}
_WORDS = re.findall(r"[A-Za-z']{2,}", " ".join(" ".join(patterns) for patterns in _LISTS.values()))
_PIECES = st.sampled_from([*_WORDS, *map(str.upper, _WORDS), " ", "\n", ".", "İ", "K", "error:", "I can't"])


@pytest.mark.parametrize("name", sorted(_LISTS))
@given(pieces=st.lists(_PIECES, max_size=12))
def test_the_first_match_is_that_of_re(name: str, pieces: list[str]) -> None:
    text = " ".join(pieces)
    plain = re.compile("|".join(_LISTS[name]), re.IGNORECASE | re.MULTILINE).search(text)
    found = AnyOf(_LISTS[name]).search(text)
    assert (found and found.span()) == (plain and plain.span())
