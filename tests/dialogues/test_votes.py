"""Files of votes: read back as written, and refused with file, line and field."""

import gzip
from pathlib import Path

import pytest

from dialeval.dialogues.votes import Vote, read_votes, write_votes
from dialeval.errors import DataError

GOOD = '{"dialogue_id": "d1", "turn": 1, "rater": "ann", "utterance": "Hello!"}'


def test_votes_come_back_as_they_were_written(tmp_path: Path) -> None:
    votes = [
        Vote("d1", 1, "ann", "Hello!\u2028 “you” \x00"),
        Vote("d1", 1, "ann", "Hi."),
        Vote("d2", 3, "béa", ""),
        Vote("d2", 3, "ann", act="Request_Place"),
        Vote("d2", 3, "cem"),
    ]
    assert write_votes(votes, tmp_path / "votes.jsonl") == 5
    assert read_votes(tmp_path / "votes.jsonl") == votes


def test_a_choice_twice_is_one_vote_and_blank_lines_are_nothing(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text(f"\ufeff{GOOD}\n\n{GOOD}\n", encoding="utf-8")
    assert read_votes(path) == [Vote("d1", 1, "ann", "Hello!")]


def test_gzip_is_seen_through_and_a_broken_one_is_named(tmp_path: Path) -> None:
    packed = gzip.compress((GOOD + "\n").encode() * 3)
    (tmp_path / "votes.jsonl.gz").write_bytes(packed)
    assert len(read_votes(tmp_path / "votes.jsonl.gz")) == 1
    (tmp_path / "votes.jsonl.gz").write_bytes(packed[:-12])
    with pytest.raises(DataError, match=r"votes\.jsonl\.gz: the compressed file is broken"):
        read_votes(tmp_path / "votes.jsonl.gz")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("\ud800", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "expected a JSON object"),
        ('{"dialogue_id": "d1", "turn": 1, "rater": "ann"}', "utterance: missing"),
        (GOOD.replace('"d1"', "7"), "dialogue_id: expected text"),
        (GOOD.replace('"Hello!"', "3"), "utterance: expected text"),
        (GOOD.replace('"ann"', '""'), "rater: empty"),
        (GOOD.replace("}", ', "act": "inform"}'), "act: expected an utterance or an act, not both"),
        (GOOD.replace('"utterance": "Hello!"', '"act": " "'), "act: empty"),
        (GOOD.replace('"utterance": "Hello!"', '"act": 3'), "act: expected text"),
        (GOOD.replace(" 1,", " -1,"), "turn: expected the number of a turn"),
        (GOOD.replace(" 1,", " true,"), "turn: expected the number of a turn"),
        (GOOD.replace(" 1,", " 1.5,"), "turn: expected the number of a turn"),
        (GOOD.replace(" 1,", " 99999999999,"), "turn: expected the number of a turn"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_bytes(f"{GOOD}\n{line}\n".encode("utf-8", "surrogatepass"))
    with pytest.raises(DataError, match=rf"votes\.jsonl:2: {said}"):
        read_votes(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_votes(tmp_path / "votes.jsonl")
