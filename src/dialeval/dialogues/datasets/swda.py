"""Switchboard with dialogue acts: telephone calls between strangers, utterance by utterance.

One file a call, `<part>/<call>.txt`, and one utterance a line, `speaker|text|tag`. **Each line is a
turn**, so the same speaker, `A` or `B`, often has several turns in a row; that is how the corpus is
tagged. `meta["tag"]` is the tag as it stands in the file, including merged ones such as
`fo_o_fw_"_by_bc`. A dialogue's id is the number of the call: `swda-2121`; no call is in two parts.
"""

from collections.abc import Iterator
from pathlib import Path

from dialeval.dialogues.datasets.publicset import MissingPartError, Part, PublicSet
from dialeval.dialogues.datasets.rawfiles import text_lines
from dialeval.dialogues.dialogue import Dialogue, Turn, clean_turn, dialogue
from dialeval.errors import DataError


def _read(folder: Path, part: Part) -> Iterator[Dialogue]:
    paths = sorted((folder / part).glob("*.txt"))
    if not paths:
        raise MissingPartError(
            "no file of this part", file=folder / part, fix="expected one .txt file a call"
        )
    for path in paths:
        turns = [_turn(path, number, line) for number, line in enumerate(text_lines(path), 1)]
        yield dialogue(turns, f"swda-{path.stem}")


def _turn(path: Path, number: int, line: str) -> Turn:
    # the text is what is left between the first and the last bar
    speaker, first, rest = line.partition("|")
    text, last, tag = rest.rpartition("|")
    if not first or not last:
        raise DataError(
            "three fields are needed", file=path, line=number, fix="speaker|text|tag, one utterance a line"
        )
    return clean_turn(speaker, text, {"tag": tag})


SETS = {
    "swda": PublicSet(
        name="swda",
        title="Switchboard Dialogue Act corpus (Jurafsky et al., 1997; Stolcke et al., 2000)",
        folder="swda",
        licence="repository GPL-3; derived from an LDC corpus",
        home="https://github.com/NathanDuran/Switchboard-Corpus",
        read=_read,
        parts=("train", "val", "test"),
    )
}
