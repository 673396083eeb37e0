"""Index a corpus of dialogues into a folder, or add to one that is there."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dialeval.dialogues import Dialogue
from dialeval.errors import UsageError
from dialeval.models.encoder import DEFAULT, Encoder
from dialeval.models.index import Index


def index_to(
    dialogues: Iterable[Dialogue],
    out: str | Path,
    encoder: str | None = None,
    *,
    add: bool = False,
    overwrite: bool = False,
    watch: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Write an index and say what is in it.

    Args:
        dialogues: Any stream of dialogues.
        out: The folder of the index.
        encoder: What makes the vectors; by default the shipped one.
        add: Whether to add to the index that is there, which must have been made with the same encoder.
        overwrite: Whether an index that is there may be replaced.
        watch: Called with the number of dialogues after each block.
    """
    out = Path(out)
    if (out / "config.json").exists() and not (add or overwrite):  # without one: a build that was killed
        raise UsageError(f"{out} exists: --add adds to it, --overwrite replaces it")
    chosen, done = Encoder.load(encoder or DEFAULT), 0

    def tell(total: int) -> None:
        nonlocal done
        if watch:
            watch(total - done)
        done = total

    if add:
        made = Index.open(out, encoder=chosen)
        made.add_dialogues(dialogues, chosen, progress=tell)
    else:
        made = Index.of_dialogues(out, dialogues, chosen, progress=tell)
    return {
        "folder": str(out),
        "dialogues": len(made),
        "columns": made.columns,
        "encoder": f"{chosen.name} {chosen.sha[:12]}",
        "search": {
            name: found.method
            if found.recall_at_50 is None
            else f"{found.method}, recall@50 {found.recall_at_50:.3f}"
            for name, found in made.approximate.items()
        }
        or "exact",
        "sha": made.sha[:12],
    }
