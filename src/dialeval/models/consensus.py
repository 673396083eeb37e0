"""The consensus corpus: good dialogues, found again by what their speakers do and by what they say.

FlowEval (Zhao et al., EMNLP 2022) judges a dialogue by the people's dialogues that are most like it. Each
dialogue of the corpus, and each that is judged, is described by

- its *acts*: ActBERT's layer `h` over its flow, the largest value of each number;
- its *words*, weighed by TF-IDF;
- its *content*: an encoder's layer `l` over its text, the largest value of each number;
- its *states*: the tokens of that layer, to be matched one by one.

The first three find neighbours, the last compares with them. The corpus is an index with a column for each;
the names of the columns say what made them, so that an index is never searched with features of another kind.
"""

import atexit
import contextlib
import functools
import hashlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dialeval import __version__, files
from dialeval.dialogues import Dialogue, in_blocks
from dialeval.dialogues.segments import SPLITTERS
from dialeval.dialogues.splits import Fingerprints, normalise
from dialeval.errors import DataError, UsageError
from dialeval.models import act_flows, encoder, segment_acts
from dialeval.models.act_flows import ActBert, Flow, flow_of
from dialeval.models.artefact import home
from dialeval.models.cache import forget
from dialeval.models.encoder import Encoder, Reading
from dialeval.models.index import Index
from dialeval.models.index.writing import Block, Column, spoken_texts
from dialeval.models.index.writing import features as search_features
from dialeval.models.matching import Idf
from dialeval.models.needs import Need, encode_ahead, plain_turns
from dialeval.models.segment_acts import Segmenter, open_classifier
from dialeval.models.token_states import TokenStates, dialogue_states

Array = npt.NDArray[Any]
EXAMPLES = Path(encoder.__file__).parents[1] / "dialogues" / "examples" / "corpus.jsonl"
NOTE = "compared with the small bundled corpus only"
_DIALOGUES = 32  # described at a time while a corpus is built
_MANY = 256  # dialogues of a corpus that are no longer all kept in memory
_QUERIES = 64  # compared with the whole corpus at a time


class Described(NamedTuple):
    """Dialogues with labelled segments, and their features, a row each."""

    dialogues: list[Dialogue]
    flows: list[Flow]
    acts: Array
    words: list[str]
    content: Array
    states: list[TokenStates]


@dataclass(frozen=True)
class Description:
    """The models, splitter and layers that compute the features of dialogues."""

    encoder: str = encoder.DEFAULT
    acts: str = segment_acts.SPANS
    actbert: str = act_flows.DEFAULT
    splitter: str = segment_acts.LEARNED
    h: int = 1
    l: int = 6  # noqa: E741  # the paper's letter

    def describe(self, dialogues: Sequence[Dialogue]) -> Described:
        """Return dialogues with labelled segments and all features."""
        encode_ahead(dialogues, self.needs())
        labelled = open_classifier(self.acts).label(dialogues, self.splitter)
        flows = [flow_of(dialogue) for dialogue in labelled]
        spoken = [spoken_texts(dialogue) for dialogue in dialogues]
        model = Encoder.load(self.encoder)
        states = list(dialogue_states(spoken, model, self.l))
        content = np.zeros((len(states), model.width), np.float32)
        for row, tokens in zip(content, states, strict=True):
            if len(tokens):
                row[:] = tokens.numbers.max(axis=0)
        words = ["\n".join(texts) for texts in spoken]
        vectors = ActBert.load(self.actbert).vectors(flows, self.h)
        return Described(labelled, flows, vectors, words, content, states)

    def needs(self) -> list[Need]:
        """Return what it reads of encoders."""
        model = Encoder.load(self.encoder)
        tokens = Need(model, plain_turns, (Reading(model.layer(self.l), "tokens"),))
        return [tokens, *open_classifier(self.acts).needs(self.splitter)]

    @property
    def names(self) -> dict[str, str]:
        """The columns of an index that hold these features."""
        cut = self.splitter if self.splitter in SPLITTERS else Segmenter.load(self.splitter).sha
        parts = [open_classifier(self.acts).sha, ActBert.load(self.actbert).sha, cut, str(self.h)]
        digest = hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]
        return {
            "acts": f"acts-{digest}",
            "words": "words",
            "content": f"content-{self.l}",
            "states": f"states-{self.l}",
        }


def corpus_blocks(
    dialogues: Iterable[Dialogue], description: Description, progress: Callable[[int], None] | None = None
) -> Iterator[Block]:
    """Yield blocks of ids, features and JSON for `Index.build_from`.

    All that is read of a turn or a segment comes from one pass of the encoder. Token states are large and a
    corpus seldom says the same thing twice, so what was encoded for a block is not kept for the next one.
    """
    from dialeval.dialogues.formats.writing import to_json  # brings pyarrow with it

    done, names, model = 0, description.names, Encoder.load(description.encoder)
    needs = [*description.needs(), Need(model, spoken_texts, (model.reading(),))]
    for block in in_blocks(dialogues, _DIALOGUES):
        encode_ahead(block, needs)
        described = description.describe(block)
        columns: dict[str, Column] = {
            **search_features(block, model),
            names["acts"]: described.acts,
            names["content"]: described.content,
            names["states"]: described.states,
        }
        yield (
            [dialogue.id for dialogue in block],
            columns,
            [to_json(dialogue) for dialogue in described.dialogues],
        )
        done += len(block)
        if done >= _MANY:
            forget()
        if progress is not None:
            progress(done)


class Neighbours(NamedTuple):
    """The corpus dialogues that one dialogue is compared with: their rows, and `S_a` to each."""

    rows: list[int]
    likeness: Array


class Corpus:
    """An open corpus: finds neighbours and returns their features."""

    def __init__(self, index: Index, description: Description) -> None:
        self.index, self.how, self.names = index, description, description.names
        missing = [name for name in self.names.values() if name not in index.columns]
        if missing:
            raise UsageError(
                f"{index.folder} was not built for these models, splitter and layers (no {missing[0]}): "
                f"dialeval index … -o {index.folder} --overwrite"
            )
        self.ids: Sequence[str] = index.ids
        self._read: dict[int, tuple[Dialogue, Flow, Fingerprints]] = {}

    def __len__(self) -> int:
        return len(self.index)

    def mark(self, note: str | None) -> str:
        """Return the corpus's mark in signatures: name (`examples` with a note) and content hash."""
        return f"{'examples' if note else self.index.folder.name}@{self.index.sha[:12]}"

    def dialogue(self, row: int) -> Dialogue:
        """Return a dialogue of the corpus, with the acts of its segments."""
        return self._at(row)[0]

    def flow(self, row: int) -> Flow:
        """Return the flow of a dialogue of the corpus."""
        return self._at(row)[1]

    def _at(self, row: int) -> tuple[Dialogue, Flow, Fingerprints]:
        if row not in self._read:
            dialogue = self.index.dialogues([row])[0]
            self._read[row] = dialogue, flow_of(dialogue), Fingerprints.of([dialogue])
        return self._read[row]

    def states(self, rows: Sequence[int]) -> list[TokenStates]:
        """Return the token states of dialogues of the corpus, as they lie on disk."""
        return self.index.states(rows, self.names["states"])

    @functools.cached_property
    def idf(self) -> Idf:
        """Inverse document frequencies of tokens, with a dialogue as a document."""
        counts = np.zeros(1, np.int64)
        for start in range(0, len(self), 1000):
            for states in self.states(range(start, min(start + 1000, len(self)))):
                tokens = np.unique(states.tokens)
                if len(tokens) and tokens[-1] >= len(counts):
                    counts = np.concatenate([counts, np.zeros(tokens[-1] + 1 - len(counts), np.int64)])
                counts[tokens] += 1
        return Idf(len(self), {int(token): int(counts[token]) for token in np.flatnonzero(counts)})

    def retrieve(self, queries: Described, ka: int, kc: int) -> Iterator[Neighbours]:
        """Yield the neighbours of each query: `ka` by acts and words, `kc` by content.

        Dialogues that share text with the query are skipped.
        """
        for start in range(0, len(queries.dialogues), _QUERIES):
            part = slice(start, start + _QUERIES)
            alike = 1.0 + self.index.cosines(queries.acts[part], column=self.names["acts"])
            alike *= 1.0 + self.index.cosines(queries.words[part], column=self.names["words"])
            content = None
            if kc:
                content = self.index.cosines(queries.content[part], column=self.names["content"])
            for number, dialogue in enumerate(queries.dialogues[part]):
                fingerprints = Fingerprints.of([dialogue])
                rows = dict.fromkeys(self._nearest(alike[number], ka, fingerprints))
                if content is not None:
                    rows |= dict.fromkeys(self._nearest(content[number], kc, fingerprints))
                yield Neighbours(list(rows), alike[number, list(rows)])

    def described(self, rows: Sequence[int]) -> Described:
        """Return dialogues of the corpus with the features stored in the index."""
        ids, dialogues = [self.ids[row] for row in rows], [self.dialogue(row) for row in rows]
        return Described(
            dialogues,
            [self.flow(row) for row in rows],
            self.index.vectors(self.names["acts"], ids),
            ["\n".join(spoken_texts(dialogue)) for dialogue in dialogues],
            self.index.vectors(self.names["content"], ids),
            self.states(rows),
        )

    def alike_in_personas(self, dialogue: Dialogue, k: int) -> list[int]:
        """Return the rows of the k dialogues that share the most persona sentences, at least one."""
        fingerprints = Fingerprints.of([dialogue])
        shared = Counter(
            row for sentence in _personas(dialogue) for row in self._by_persona.get(sentence, ())
        )
        best = sorted(shared, key=lambda row: (-shared[row], row))
        return list(islice((row for row in best if not fingerprints.overlaps(self._at(row)[2])), k))

    @functools.cached_property
    def _by_persona(self) -> dict[str, list[int]]:
        by_sentence: dict[str, list[int]] = {}
        for row in range(len(self)):
            for sentence in _personas(self.dialogue(row)):
                by_sentence.setdefault(sentence, []).append(row)
        return by_sentence

    def _nearest(self, scores: Array, k: int, excluded: Fingerprints) -> list[int]:
        """Return the rows of the k highest scores, ties by row, without dialogues that overlap `excluded`."""
        size, nearest = min(len(scores), 2 * k + 8), list[int]()
        while k:
            best = np.argpartition(-scores, size - 1)[:size] if size < len(scores) else np.arange(size)
            best = best[np.lexsort((best, -scores[best]))]
            nearest = []
            for row in best.tolist():
                if not excluded.overlaps(self._at(row)[2]):
                    nearest.append(row)
                if len(nearest) == k:
                    return nearest
            if size == len(scores):
                break
            size = min(len(scores), 4 * size)
        return nearest


def _personas(dialogue: Dialogue) -> set[str]:
    """Return the normalised persona sentences of both speakers."""
    personas = dialogue.meta.get("personas") or []
    lists = list(personas.values()) if isinstance(personas, dict) else [personas]
    sentences = (
        sentence for part in lists if isinstance(part, list) for sentence in part if isinstance(sentence, str)
    )
    return {normalise(sentence) for sentence in sentences}


def corpus_folder(name: str) -> Path:
    """Return the folder of a corpus that was indexed by name, such as a public set."""
    return home() / "indexes" / name


def open_corpus(name: str | None, description: Description) -> tuple[Corpus, str | None]:
    """Open a corpus by folder or name; by default DailyDialog's, if it was indexed, else the bundled one.

    Returns:
        The corpus, and a note for scores if it is the bundled one.
    """
    if name is None:
        folder = corpus_folder("dailydialog")
        name = str(folder) if (folder / "config.json").is_file() else "examples"
    if name == "examples":
        return _examples(description), NOTE
    folder = Path(name) if Path(name).is_dir() else corpus_folder(name)
    if not folder.is_dir():
        raise UsageError(f"no corpus {name!r}: make one, dialeval index chats.jsonl -o {name}")
    return _opened(str(folder.resolve()), _stamp(folder), description), None


def _stamp(folder: Path) -> int:
    config = folder / "config.json"
    return config.stat().st_mtime_ns if config.is_file() else 0


@functools.lru_cache(maxsize=4)
def _opened(folder: str, _: int, description: Description) -> Corpus:
    return Corpus(Index.open(folder, encoder=Encoder.load(description.encoder)), description)


@functools.lru_cache(maxsize=2)
def _examples(description: Description) -> Corpus:
    """Open the index of the bundled dialogues; the first process to need it builds it for all.

    Its name is a hash of its inputs. Without a writable home it is temporary.
    """
    from dialeval.dialogues.formats import read

    model = Encoder.load(description.encoder)
    content = "|".join((__version__, model.sha, *description.names.values(), files.sha256(EXAMPLES)))
    folder = corpus_folder(f"examples-{hashlib.sha256(content.encode()).hexdigest()[:12]}")

    def build(folder: Path) -> Index:
        return Index.build_from(folder, corpus_blocks(read(EXAMPLES), description), encoder=model)

    with contextlib.suppress(DataError):
        return Corpus(Index.open(folder, encoder=model), description)
    keeping = files.replacing_folder(folder, replace=folder.is_dir())
    with contextlib.suppress(DataError), keeping as fresh:  # else another was quicker, or nothing is writable
        build(fresh)
    with contextlib.suppress(DataError):
        return Corpus(Index.open(folder, encoder=model), description)
    folder = Path(tempfile.mkdtemp(prefix="dialeval-corpus-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Corpus(build(folder), description)
