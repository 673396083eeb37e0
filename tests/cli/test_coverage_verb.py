"""`dialeval coverage`: the table, the files, and how it says no."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from commands import here, refused

import dialeval
from dialeval.jobs.demo import example_dialogues
from dialeval.models.encoder import Encoder
from dialeval.models.index import Index

CHATS = str(Path(dialeval.__file__).parent / "dialogues" / "examples" / "dialogues.jsonl")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("corpus") / "index"
    Index.of_dialogues(folder, example_dialogues()[:30], Encoder.load())
    return str(folder)


def test_table_files_and_json(tmp_path: Path, corpus: str) -> None:
    dialeval.write(example_dialogues()[30:], tmp_path / "rest.jsonl")
    words = ("coverage", "rest.jsonl", "--corpus", corpus)
    files = ("-o", "space.svg", "-o", "space.html", "-o", "space.json")
    said = here(*words, *files, cwd=tmp_path)
    table, farthest = (part.splitlines() for part in said.stdout.strip().split("\n\n"))
    row = dict(zip(table[0].split("\t"), table[1].split("\t"), strict=True))
    assert (row["column"], row["corpus"], row["equal"], row["test"]) == ("text", "30", "0", "30")
    assert len(farthest) == 2 + 5
    assert "written: space.html" in said.stderr
    record = json.loads((tmp_path / "space.json").read_text())
    assert f"{record['share']['value']:.3f}".lstrip("0") == row["covered"].split()[0]
    assert (record["data"], record["folder"], record["version"]) == ("rest.jsonl", corpus, "coverage.v1")
    assert len(record["places"]) == len(record["corpus"]) == 30
    ET.parse(tmp_path / "space.svg")
    page = (tmp_path / "space.html").read_text()
    assert "<svg" in page
    assert "of 30 dialogues have a neighbour" in page
    assert json.loads(here(*words, "--column", "text", "--json", cwd=tmp_path).stdout) == record


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((CHATS, "-o", "space.png"), 2, "must end in .svg, .html, .json"),
        ((CHATS, "--column", "words"), 2, "no column of vectors called 'words'"),
        ((CHATS, "--column", "nothing"), 2, "this index has: text"),
        ((CHATS, "--part", "test"), 2, "--part needs a public set"),
        (("nothing.jsonl",), 1, "no such file"),
        (("fed",), 1, "was not found"),
        (("fed", "--part", "nothing"), 2, "fed has no part 'nothing'"),
    ],
)
def test_refusals_are_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, corpus: str, words: tuple[str, ...], code: int, said: str
) -> None:
    monkeypatch.setenv("DIALEVAL_DATA", str(tmp_path / "no-data"))
    refused("coverage", *words, "--corpus", corpus, cwd=tmp_path, code=code, said=said)


def test_a_folder_that_is_no_index(tmp_path: Path) -> None:
    refused("coverage", CHATS, "--corpus", tmp_path, cwd=tmp_path, code=1, said="dialeval: ")
