"""Dialogues with labelled acts, and replies labelled as good or bad: ActDial, DailyDialog(++), Switchboard.

**ActDial**, DailyDialog and ConvAI2 in segments with acts, is read by `formats.actdial`.

**DailyDialog**: one dialogue a line, every utterance followed by `__eou__`; two more files have a number
per utterance. A dialogue's id is its part and line, from 1: `dailydialog-train-17`. Each turn's `meta`
has `act` and `emotion` by name. One training line has twelve utterances and eleven labels; its turns get
none, and the dialogue's `meta["note"]` says so. Topics are published for the joint file only, whose order
cannot be matched with the parts, and are not read.

The parts overlap: of 1000 validation dialogues 122 are in the training part too, compared without case and
punctuation, and 206 share a long run of turns with one. The test part, which is not read, overlaps as much.
Drop them with `splits.leave_out` before holding out data.

**DailyDialog++**: a context and five good, five adversarial and five random replies. Each reply becomes a
dialogue, with the reply as its last turn: `dailydialog++-<id>-pos0` … `adv0` … `rnd4`. The rating at that
turn is 1 for a good reply and 0 for the others; its `references` are the other good replies.
Nine in ten contexts come from the *training* part of DailyDialog.

**Switchboard** with dialogue acts: telephone calls between strangers. One file a call, `<part>/<call>.txt`,
and one utterance a line, `speaker|text|tag`. **Each line is a turn**, as the corpus is tagged, so the same
speaker, `A` or `B`, often has several turns in a row. `meta["tag"]` is the tag as in the file, including
merged ones such as `fo_o_fw_"_by_bc`. A dialogue's id is the number of the call: `swda-2121`; no call is in
two parts.
"""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec

from dialeval.dialogues.datasets.publicset import GoldDimension, MissingPartError, Part, PublicSet, part_files
from dialeval.dialogues.datasets.rawfiles import load_lines, original, text_lines
from dialeval.dialogues.dialogue import Dialogue, Turn, clean_turn, dialogue
from dialeval.dialogues.formats import actdial
from dialeval.errors import DataError
from dialeval.scores import Score

# DailyDialog and DailyDialog++


ACTS = {"1": "inform", "2": "question", "3": "directive", "4": "commissive"}
EMOTIONS = {
    "0": "no emotion",
    "1": "anger",
    "2": "disgust",
    "3": "fear",
    "4": "happiness",
    "5": "sadness",
    "6": "surprise",
}
_END = "__eou__"
_SPEAKERS = ("speaker1", "speaker2")


def _read_dailydialog(folder: Path, part: Part) -> Iterator[Dialogue]:
    texts = original(folder, f"{part}/dialogues_{part}.txt", MissingPartError)
    acts, emotions = (original(folder, f"{part}/dialogues_{kind}_{part}.txt") for kind in ("act", "emotion"))
    lines = text_lines(texts)
    labels = [_labels(acts, ACTS, len(lines)), _labels(emotions, EMOTIONS, len(lines))]
    for number, line in enumerate(lines, 1):
        utterances = _utterances(texts, number, line)
        metas, meta = _metas(len(utterances), *(column[number - 1] for column in labels))
        turns = [
            clean_turn(_SPEAKERS[place % 2], text, metas[place]) for place, text in enumerate(utterances)
        ]
        yield dialogue(turns, f"dailydialog-{part}-{number}", meta=meta)


def _utterances(path: Path, number: int, line: str) -> list[str]:
    *utterances, rest = line.split(_END)
    if rest.strip() or not utterances:
        raise DataError(
            f"the line does not end in {_END}", file=path, line=number, fix="download the file again"
        )
    # one blank on each side separates text and mark
    return [text.removeprefix(" ").removesuffix(" ") for text in utterances]


def _labels(path: Path, names: dict[str, str], expected: int) -> list[list[str]]:
    lines = text_lines(path)
    if len(lines) != expected:
        raise DataError(
            f"{len(lines)} lines for {expected} dialogues",
            file=path,
            fix="text and labels must come from the same part",
        )
    try:
        return [[names[code] for code in line.split()] for line in lines]
    except KeyError as error:
        raise DataError(f"unknown label {error}", file=path, fix=f"expected {', '.join(names)}") from None


def _metas(size: int, acts: list[str], emotions: list[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    if len(acts) == len(emotions) == size:
        return [{"act": act, "emotion": emotion} for act, emotion in zip(acts, emotions, strict=True)], {}
    note = f"{size} utterances but {len(acts)} acts and {len(emotions)} emotions: labels left out"
    return [{} for _ in range(size)], {"note": note}


class _Replies(msgspec.Struct):
    """A context of DailyDialog++ and its replies."""

    id: int
    context: list[str]
    positive: list[str] = msgspec.field(name="positive_responses")
    adversarial: list[str] = msgspec.field(name="adversarial_negative_responses")
    random: list[str] = msgspec.field(name="random_negative_responses")

    def candidates(self) -> Iterator[tuple[str, str, str]]:
        """Yield (id of the dialogue, kind, reply) for all replies."""
        for mark, kind in (("pos", "positive"), ("adv", "adversarial"), ("rnd", "random")):
            replies: list[str] = getattr(self, kind)
            for place, reply in enumerate(replies):
                yield f"dailydialog++-{self.id}-{mark}{place}", kind, reply


def _read_plus(folder: Path, part: Part) -> Iterator[Dialogue]:
    for _, record in load_lines(original(folder, f"{part}.json"), _Replies):
        last = len(record.context)
        for name, kind, reply in record.candidates():
            texts = [*record.context, reply]
            yield dialogue(
                zip(cycle(_SPEAKERS), texts, strict=False),
                name,
                references={last: [text for text in record.positive if text != reply]},
                meta={"context": record.id, "reply": kind},
            )


def _rate_plus(folder: Path) -> Iterator[Score]:
    for _, record in load_lines(original(folder, "dev.json"), _Replies):
        for name, kind, _ in record.candidates():
            value = float(kind == "positive")
            yield Score(name, len(record.context), None, "human:label", "appropriate", value)


# Switchboard


def _read_swda(folder: Path, part: Part) -> Iterator[Dialogue]:
    for path in part_files(folder / part, "*.txt", "one .txt file per call"):
        turns = [_turn(path, number, line) for number, line in enumerate(text_lines(path), 1)]
        yield dialogue(turns, f"swda-{path.stem}")


def _turn(path: Path, number: int, line: str) -> Turn:
    # the text is what is left between the first and the last bar
    speaker, first, rest = line.partition("|")
    text, last, tag = rest.rpartition("|")
    if not first or not last:
        raise DataError(
            "expected three fields", file=path, line=number, fix="speaker|text|tag, one utterance a line"
        )
    return clean_turn(speaker, text, {"tag": tag})


SETS = {
    "actdial": PublicSet(
        name="actdial",
        title="ActDial: segment acts on ConvAI2 and DailyDialog",
        folder="actdial",
        licence="none stated",
        home="github.com/Jianqiao-Zhao/FlowEval (ActDial)",
        read=actdial.read_part,
        parts=("train", "dev", "test"),
    ),
    "dailydialog": PublicSet(
        name="dailydialog",
        title="DailyDialog, training and validation parts (Li et al., IJCNLP 2017)",
        folder="dailydialog",
        licence="none in the files; the data card says CC BY-NC-SA 4.0",
        home="https://github.com/kent-ai-dev/engram",
        read=_read_dailydialog,
        parts=("train", "validation"),
    ),
    "dailydialog++": PublicSet(
        name="dailydialog++",
        title="DailyDialog++, development part: good, adversarial and random replies (Sai et al., TACL 2020)",
        folder="dailydialog_plusplus",
        licence="MIT",
        home="https://github.com/iitmnlp/DailyDialog-plusplus",
        read=_read_plus,
        parts=("dev",),
        rate=_rate_plus,
        golds=(GoldDimension("appropriate", "turn"),),
    ),
    "swda": PublicSet(
        name="swda",
        title="Switchboard Dialogue Act corpus (Jurafsky et al., 1997; Stolcke et al., 2000)",
        folder="swda",
        licence="repository GPL-3; derived from an LDC corpus",
        home="https://github.com/NathanDuran/Switchboard-Corpus",
        read=_read_swda,
        parts=("train", "val", "test"),
    ),
}
