"""`dialeval list`: what there is."""

from typing import Any

from dialeval.cli import output
from dialeval.errors import UsageError


def show(what: str, download: str | None, json: bool) -> None:
    """Print metrics, sets, formats or schemes."""
    tables = {"metrics": _metrics, "sets": _sets, "formats": _formats, "schemes": _schemes}
    if what not in tables:
        raise UsageError(f"list {what}: expected {', '.join(tables)}")
    if download:
        if what != "sets":
            raise UsageError(f"list {what} --download: only sets can be downloaded")
        _download(download)
    rows = tables[what]()
    if json:
        output.print_json(rows)
    elif rows:
        output.print_table(
            what.capitalize(), list(rows[0]), [[_text(cell) for cell in row.values()] for row in rows]
        )


def _text(value: Any) -> Any:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _metrics() -> list[dict[str, Any]]:
    from dialeval.metrics import describe, metric_names

    return [describe(name) for name in metric_names()]


def _sets() -> list[dict[str, Any]]:
    from dialeval.dialogues.datasets import NAMES, data_folder, public_set

    rows = []
    for name in NAMES:
        chosen = public_set(name)
        rows.append(
            {
                "name": name,
                "here": "yes" if (data_folder() / chosen.folder).is_dir() else "no",
                "parts": chosen.parts,
                "gold": [f"{gold.dimension} ({gold.level})" for gold in chosen.golds],
                "title": chosen.title,
                "licence": chosen.licence,
                "home": chosen.home,
            }
        )
    return rows


def _formats() -> list[dict[str, Any]]:
    return [
        {"name": "messages", "what": "ours and OpenAI's chat JSONL: messages with role and content"},
        {"name": "sharegpt", "what": "ShareGPT: conversations with from and value"},
        {"name": "convlab", "what": "ConvLab unified: turns with speaker and utterance"},
        {"name": "parlai", "what": "ParlAI conversations: dialog with id and text"},
        {"name": "predictions", "what": "a task-oriented system's replies: {id: [{response, state, …}]}"},
        {"name": "table", "what": "CSV, TSV or Parquet with one turn a row; name columns with --columns"},
        {"name": "text", "what": "plain text with User: and System: lines, a blank line between dialogues"},
    ]


def _schemes() -> list[dict[str, Any]]:
    from dialeval.annotation import SCHEMES, read_scheme

    schemes = [read_scheme(name) for name in SCHEMES]
    return [
        {
            "name": one.name,
            "unit": f"pair of {one.of}s" if one.unit == "pair" else one.unit,
            "raters": one.raters_per_item,
            "questions": [question.name for question in one.questions],
            "title": one.title,
        }
        for one in schemes
    ]


def _download(name: str) -> None:
    from dialeval.dialogues.datasets import public_set

    chosen = public_set(name)
    if not chosen.downloads:
        raise UsageError(f"{name} cannot be downloaded by itself: get it from {chosen.home}")
    for path in chosen.download():
        output.say(f"downloaded: {path}")
