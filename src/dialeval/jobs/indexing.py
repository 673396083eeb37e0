"""Index a corpus of dialogues into a folder, or add to one that is there."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dialeval.dialogues import Dialogue
from dialeval.dialogues.splits import fingerprint
from dialeval.errors import UsageError
from dialeval.models.consensus import Description, corpus_blocks
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.index import Index


def index_to(
    dialogues: Iterable[Dialogue],
    out: str | Path,
    encoder: str | None = None,
    *,
    plain: bool = False,
    layer: int | None = None,
    acts_layer: int | None = None,
    acts: str | None = None,
    splitter: str | None = None,
    add: bool = False,
    overwrite: bool = False,
    watch: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Write an index and return a summary of its contents.

    Args:
        dialogues: Any stream of dialogues; copies of an earlier one are left out.
        out: The folder of the index, or a name: then it is kept where metrics look for corpora.
        encoder: What makes the vectors; by default the shipped one.
        plain: Whether vectors and words are enough: to search in, but not for consensus metrics.
        layer: Of the encoder, for the content of dialogues; by default the one that metrics ask for.
        acts_layer: Of ActBERT, for their acts; by default the one that metrics ask for.
        acts: The classifier of segment acts; by default the one that metrics ask for.
        splitter: How turns are cut into segments: `punkt`, `punkt+comma` or a segmenter; by default the way
            that metrics ask for.
        add: Whether to add to the index that is there, which must have been made with the same encoder.
    """
    out = Path(out)
    if (out / "config.json").exists() and not (add or overwrite):  # without one: a build that was killed
        raise UsageError(f"{out} exists: --add adds to it, --overwrite replaces it")
    chosen, done = Encoder.load(encoder or DEFAULT), 0
    usual = Description(encoder=encoder or DEFAULT)
    description = replace(
        usual,
        l=usual.l if layer is None else layer,
        h=usual.h if acts_layer is None else acts_layer,
        acts=acts or usual.acts,
        splitter=splitter or usual.splitter,
    )
    left_out: list[str] = []
    different = _different(dialogues, left_out)

    def tell(total: int) -> None:
        nonlocal done
        if watch:
            watch(total - done)
        done = total

    if add:
        index = Index.open(out, encoder=chosen)
        if set(index.columns) == {"text", "words"}:
            index.add_dialogues(different, chosen, progress=tell)
        else:
            index.add_from(corpus_blocks(different, description, tell))
    elif plain:
        index = Index.of_dialogues(out, different, chosen, progress=tell)
    else:
        index = Index.build_from(out, corpus_blocks(different, description, tell), encoder=chosen)
    search = {
        name: settings.method
        if settings.recall_at_50 is None
        else f"{settings.method}, recall@50 {settings.recall_at_50:.3f}"
        for name, settings in index.approximate.items()
    }
    return {
        "folder": str(out),
        "dialogues": len(index),
        "columns": index.columns,
        "encoder": None if index.encoder is None else f"{index.encoder.name} {index.encoder.sha[:12]}",
        "search": search or "exact",
        "sha": index.sha[:12],
        "copies_left_out": len(left_out),
    }


def _different(dialogues: Iterable[Dialogue], left_out: list[str]) -> Iterator[Dialogue]:
    """Yield each dialogue once, by its texts; ids of copies are noted."""
    seen: set[str] = set()
    for dialogue in dialogues:
        content = fingerprint(dialogue)
        if content in seen:
            left_out.append(dialogue.id)
        else:
            seen.add(content)
            yield dialogue
