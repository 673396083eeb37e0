"""What ten systems replied to the test part of MultiWOZ, and the figures that were published for them."""

from pathlib import Path
from typing import Any

from dialeval.dialogues.datasets.publicset import data_folder
from dialeval.dialogues.datasets.rawfiles import load, original
from dialeval.errors import DataError

FIGURES = ("inform", "success", "bleu", "combined")


def system_files() -> dict[str, Path]:
    """Return the files of predictions at hand, by the name of the system."""
    folder = data_folder() / "multiwoz" / "predictions"
    found = {path.name.partition(".json")[0]: path for path in sorted(folder.glob("*.json*"))}
    if not found:
        raise DataError("no systems' predictions are there", file=folder, fix="set DIALEVAL_DATA")
    return found


def published_figures() -> dict[str, dict[str, Any]]:
    """Return what the benchmark's home page says of each system, and in which table; {} if not at hand."""
    try:
        path = original(data_folder() / "multiwoz", "leaderboard.json")
    except DataError:
        return {}
    systems = load(path, dict[str, Any]).get("systems", {})
    return {
        name: {key: row[key] for key in ("table", *FIGURES) if key in row} for name, row in systems.items()
    }
