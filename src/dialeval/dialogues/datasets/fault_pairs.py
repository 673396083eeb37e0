"""Pairs of texts with human labels: whether the second contradicts, repeats or is supported by the first.

Ten published collections, each in its own format, become dialogues of one earlier turn (or passage) and
one reply. The dialogue's `meta` has `pair`, the role of the earlier text (`own`: of the same speaker; `user`:
of the other one; `evidence`; `none`: the earlier text is empty), and `targets`, the labels of the reply, 0 to
1: `contradicts`, `repeats`, `supported`, `nonsense`, `unkind`.

Peculiarities: DECODE's pairs all contradict, and `decode_rct` has dialogues without contradiction, of which
neighbouring turns of one speaker are taken. The numbers of SNLI's labels differ between its two files. CI-ToD
joins words by underscores, and its reply can contradict the query, the history or the table. BEGIN and the
audit of FaithDial also have generic replies, which state nothing and are left out. SICK (CC BY-NC-SA 3.0) and
ANLI (CC BY-NC 4.0) are not read, so that what learns from these pairs can be used commercially.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dialeval import files
from dialeval.dialogues.datasets.publicset import MissingPartError, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import load, load_lines, original, text_lines
from dialeval.dialogues.dialogue import Dialogue, dialogue
from dialeval.errors import DataError

Targets = dict[str, float]
Pair = tuple[str, str, str, Targets]  # role of the first text, the two texts, the labels of the second
_SPEAKERS = {"own": "assistant", "user": "user", "evidence": "tool", "none": "user"}
_ENTAILED: Targets = {"contradicts": 0.0, "supported": 1.0}
_NEUTRAL: Targets = {"contradicts": 0.0, "supported": 0.0}
_DENIED: Targets = {"contradicts": 1.0, "supported": 0.0}


def _table(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a table: comma-separated and quoted in a .csv file, else tab-separated."""
    is_csv = path.name.removesuffix(".gz").endswith(".csv")
    options: Any = {} if is_csv else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    with files.open_binary(path) as file:
        text = file.read().decode("utf-8", "replace")
    for row in csv.DictReader(io.StringIO(text, newline=None), **options):
        yield {
            key: value or ""
            for key, value in row.items()
            if isinstance(key, str) and isinstance(value, str | None)
        }


def _rows(folder: Path, name: str) -> Iterator[dict[str, str]]:
    return _table(original(folder, name, MissingPartError))


def _records(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    return (record for _, record in load_lines(original(folder, name, MissingPartError), dict[str, Any]))


def _decode(folder: Path) -> Iterator[Pair]:
    for row in _rows(folder, "decode_contradiction_pairs.tsv"):
        yield "own", row["seg1"], row["seg2"], {"contradicts": 1.0, "repeats": 0.0}
    for chat in _records(folder, "decode_rct.jsonl"):
        turns = chat["turns"]
        own = [turn["text"] for turn in turns if turn["agent_id"] == turns[-1]["agent_id"]]
        for earlier in own[-4:-1]:
            yield "own", earlier, own[-1], {"contradicts": 0.0, "repeats": 0.0}


def _prosecco(folder: Path) -> Iterator[Pair]:
    for row in _rows(folder, "prosecco/ProSeCCo_final.csv"):
        denied = float(row["label"] == "self-contradiction")
        yield "own", row["proposition_1"], row["proposition_2"], {"contradicts": denied}


def _snli(folder: Path) -> Iterator[Pair]:
    cat_labels = {"1": _NEUTRAL, "2": _DENIED, "3": _ENTAILED}
    for line in text_lines(original(folder, "snli/cat_train.csv", MissingPartError)):
        parts = line.split("\t")
        if len(parts) == 4 and parts[1] in cat_labels:
            yield "evidence", parts[2], parts[3], cat_labels[parts[1]]
    labels = {"0": _ENTAILED, "1": _NEUTRAL, "2": _DENIED}
    for row in _rows(folder, "snli/becel_validation.tsv"):
        if row["label"] in labels:
            yield "evidence", row["premise"], row["hypothesis"], labels[row["label"]]
    for row in _rows(folder, "snli/becel_semantic.tsv"):
        same = {"contradicts": 0.0, "repeats": 1.0}
        yield "own", row["hypothesis"], row["hypothesis_paraphrase"], same


def _rte(folder: Path) -> Iterator[Pair]:
    for row in _rows(folder, "rte/train.tsv"):
        if row["label"]:
            supported = float(row["label"] == "entailment")
            yield "evidence", row["sentence1"], row["sentence2"], {"supported": supported}


def _ci_tod(folder: Path) -> Iterator[Pair]:
    for path in sorted((folder / "ci_tod").glob("*.json")):
        for record in load(path, list[dict[str, Any]]):
            yield from _inconsistencies(record)


def _inconsistencies(record: dict[str, Any]) -> Iterator[Pair]:
    turns = [(turn["turn"], turn["utterance"].replace("_", " ")) for turn in record["dialogue"]]
    facts, reply = record["scenario"], turns[-1][1]
    user_texts = [text for speaker, text in turns[:-1] if speaker != "assistant"]
    own_texts = [text for speaker, text in turns[:-1] if speaker == "assistant"]
    if user_texts:
        yield "user", user_texts[-1], reply, {"contradicts": float(facts["qi"] == "1")}
    if own_texts:
        yield "own", own_texts[-1], reply, {"contradicts": float(facts["hi"] == "1")}
    rows = [
        ", ".join(
            f"{key.replace('_', ' ')}: {str(value).replace('_', ' ')}"
            for key, value in item.items()
            if value != "-"
        )
        for item in (facts["kb"].get("items") or ())
    ]
    words = set(reply.split())
    best = sorted(rows, key=lambda row: -len(words & set(row.replace(",", "").split())))[:3]
    if best:
        denied = float(facts["kbi"] == "1")
        yield "evidence", "; ".join(best), reply, {"contradicts": denied, "supported": 1.0 - denied}


def _begin(folder: Path) -> Iterator[Pair]:
    for path in sorted((folder / "begin").glob("*.tsv")):
        for row in _table(path):
            if row["begin_label"] != "Generic":
                supported = float(row["begin_label"] == "Fully attributable")
                yield "evidence", row["knowledge"], row["response"], {"supported": supported}


def _faithdial(folder: Path) -> Iterator[Pair]:
    for path in sorted((folder / "faithdial_audit").glob("*.csv")):
        for row in _table(path):
            names = list(row)
            label = (row.get("begin_label") or row.get("BEGIN") or "").lower()
            if not label or "generic" in label or len(names) < 3:
                continue
            supported = float("entailment" in label and "hallucinat" not in label)
            yield "evidence", row[names[0]], row[names[2]], {"supported": supported}


def _chatprotect(folder: Path) -> Iterator[Pair]:
    for path in sorted((folder / "chatprotect").rglob("*.json")):
        for row in load(path, list[dict[str, Any]]):
            first, mark, second = str(row.get("text", "")).partition("---;;;")
            if mark:
                denied = float(row.get("label") == ["strong"])  # an empty list: both can be true
                yield "own", first.strip(), second.strip(), {"contradicts": denied}


def _comve(folder: Path) -> Iterator[Pair]:
    for part in ("train", "dev", "test"):
        for row in _rows(folder, f"comve/{part}.csv"):
            yield "none", "", row["Correct Statement"], {"nonsense": 0.0}
            yield "none", "", row["Incorrect Statement"], {"nonsense": 1.0}


def _gu_dnli(folder: Path) -> Iterator[Pair]:
    labels = {"Entailment": _ENTAILED, "Neutral": _NEUTRAL, "Contradiction": _DENIED}
    for line in text_lines(original(folder, "gu_dnli/data.csv", MissingPartError)):
        parts = line.split("\t")
        if len(parts) == 3 and parts[2] in labels:
            yield "evidence", parts[0], parts[1], labels[parts[2]]


_SOURCES = {
    "begin": _begin,
    "chatprotect": _chatprotect,
    "ci_tod": _ci_tod,
    "comve": _comve,
    "decode": _decode,
    "faithdial_audit": _faithdial,
    "gu_dnli": _gu_dnli,
    "prosecco": _prosecco,
    "rte": _rte,
    "snli": _snli,
}


def _read(folder: Path, part: Part) -> Iterator[Dialogue]:
    """Yield the pairs of all collections whose files are there."""
    missing: MissingPartError | None = MissingPartError("no collection of pairs", file=folder)
    for name, pairs in _SOURCES.items():
        try:
            for number, (kind, earlier, reply, targets) in enumerate(pairs(folder)):
                missing = None
                if reply.strip():
                    turns = [(_SPEAKERS[kind], earlier.strip()), ("assistant", reply.strip())]
                    meta = {"pair": kind, "targets": targets}
                    yield dialogue(turns, f"fault-pairs-{name}-{number}", meta=meta)
        except MissingPartError:
            continue
        except (LookupError, TypeError, ValueError, AttributeError, csv.Error) as error:
            raise DataError(
                f"{name} is not as published: {error!r}", file=folder, fix="download it again"
            ) from None
    if missing:
        raise missing


SETS = {
    "fault-pairs": PublicSet(
        name="fault-pairs",
        title="Pairs labelled for contradiction, support, repetition and sense, of ten collections",
        folder="faults",
        licence="CC BY-SA 4.0, MIT, CC BY 4.0, Apache-2.0; the files of SNLI and RTE state none",
        home="https://github.com/henrikebeyer/ProSeCCo",
        read=_read,
        parts=("train",),
    ),
}
