"""The public sets that the models behind a metric were trained on, read from their artefacts.

`dialeval train` writes the sets and the test overlap filter to an artefact's `config.json`. Artefacts made
before it did so, such as those that ship, name their data in the table of their card.
"""

import dataclasses
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from dialeval.dialogues.datasets import set_names
from dialeval.errors import DialevalError
from dialeval.metrics.registry import build
from dialeval.models import artefact, blend
from dialeval.models.artefact import Artefact

ALL = "all"
_DATA = re.compile(r"^## Data\n(.*?)^## ", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^## How to rebuild it\n\n`+shell\n(.*?)\n`+$", re.DOTALL | re.MULTILINE)
_ESCAPED = re.compile(r"\\(.)")
_PARTS = {
    "": frozenset({"train", "dev"}),
    "train": frozenset({"train"}),
    "dev": frozenset({"dev"}),
    "text": frozenset({"test"}),
}


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """The public sets of one model: `NAME`, `NAME/train`, `NAME/dev`, `NAME/text` or `NAME/all`.

    `filtered` names sets whose dialogues were kept out of the training data by their text. `recorded` is
    whether the artefact says anything about its data.

    >>> TrainingData(("fed/text",)).parts_of("fed"), TrainingData(("sgd",)).names
    (frozenset({'test'}), ['sgd'])
    """

    sets: tuple[str, ...] = ()
    filtered: tuple[str, ...] = ()
    recorded: bool = True

    @property
    def names(self) -> list[str]:
        """The sets without their portions, sorted."""
        return sorted({entry.partition("/")[0] for entry in self.sets})

    def parts_of(self, name: str) -> frozenset[str]:
        """Return which of train, dev and test of a set the model was trained or tuned on."""
        roles = [entry.partition("/")[2] for entry in self.sets if entry.partition("/")[0] == name]
        all_roles = frozenset({"train", "dev", "test"})
        return frozenset().union(*(_PARTS.get(role, all_roles) for role in roles))


def training_data(metric: Any) -> list[TrainingData]:
    """Return the data of each model behind a metric.

    The class variables `trained_on`, `tuned_on` and `left_out` of a metric speak of its default models.

    >>> from dialeval.metrics import build
    >>> [one.sets for one in training_data(build("turn-quality"))]
    [('dstc9/text', 'convai2-wild/text'), ('dbdc3',)]
    """
    chosen = _chosen_models(metric)
    data = [_recorded(model) for model in models_of(metric)]
    if all(value == default for value, default in chosen.values()):
        kept_out = tuple(getattr(metric, "left_out", ()))
        data = [dataclasses.replace(entry, filtered=(*entry.filtered, *kept_out)) for entry in data]
        own = (*getattr(metric, "trained_on", ()), *getattr(metric, "tuned_on", ()))
        data += [TrainingData(own, kept_out)] if own else []
    return data


def non_commercial(metric: Any) -> dict[str, str]:
    """Return the models behind a metric whose licence, by their training data, is non-commercial.

    >>> non_commercial(build("coherence")), non_commercial(build("turn-quality"))
    ({'dialeval-coherence': 'cc-by-nc-sa-4.0'}, {})
    """
    licences = {model.folder.name: model.licence for model in models_of(metric)}
    return {name: licence for name, licence in sorted(licences.items()) if "-nc" in licence.lower()}


def models_of(metric: Any) -> list[Artefact]:
    """Return the models behind a metric, and those whose outputs they read, without the encoder."""
    seen: set[str] = set()
    return [model for name, _ in _chosen_models(metric).values() for model in _with_parts(name, seen)]


def _chosen_models(metric: Any) -> dict[str, tuple[str, str]]:
    """Return the fields of a metric that name models: what they name, and what they name by default.

    A field whose default is no model here names one only where a folder of that name is: nothing is pulled.
    """
    if not dataclasses.is_dataclass(metric):
        return {}
    fields = {field.name: field.default for field in dataclasses.fields(metric)}
    models = {called for called, _, _ in artefact.names()}
    named = {*getattr(metric, "provenance", dict)(), *(name for name in fields if fields[name] in models)}
    return {
        name: (getattr(metric, name), default)
        for name, default in fields.items()
        if name in named
        and isinstance(default, str)
        and (default in models or Path(getattr(metric, name)).is_dir())
    }


def _with_parts(name: str, seen: set[str]) -> Iterator[Artefact]:
    """Yield a model and the models whose outputs it reads."""
    with suppress(DialevalError):
        model = artefact.load(artefact.resolve(name))
        if model.sha in seen or model.kind == "encoder.v1":
            return
        seen.add(model.sha)
        yield model
        for value in model.config.values():
            if isinstance(value, dict) and isinstance(value.get("name"), str) and "sha" in value:
                yield from _with_parts(value["name"], seen)


def _recorded(model: Artefact) -> TrainingData:
    training = model.config.get("training")
    if isinstance(training, dict) and isinstance(training.get("sets"), list):
        return TrainingData(
            tuple(map(str, training["sets"])), tuple(map(str, training.get("filtered") or ()))
        )
    card = model.path("README.md").read_text(encoding="utf-8")
    table, command = _DATA.search(card), _COMMAND.search(card)
    if table is None or "\n| " not in table[1]:
        return TrainingData(recorded=False)
    cells = [_ESCAPED.sub(r"\1", line.split(" | ")[0].removeprefix("| ")) for line in table[1].splitlines()]
    sets = [cell for cell in cells if cell.partition("/")[0] in set_names()]
    if model.kind == blend.KIND:
        sets = [f"{name}/{ALL}" for name in sets]
    words = shlex.split(command[1]) if command else []
    without = [word.removeprefix("set:") for option, word in pairwise(words) if option == "--without"]
    return TrainingData((*sets, *_of_teacher(words)), tuple(without))


def _of_teacher(words: list[str]) -> list[str]:
    """Return the sets of the teacher that is named in the command which trained a student."""
    recipe = next((word for word in words if word.startswith("student:")), "")
    teacher = next(
        (option for option in recipe.partition(":")[2].split(",") if option.startswith("teacher=")), ""
    )
    return teacher_sets(teacher.removeprefix("teacher=")) if teacher else []


def teacher_sets(teacher: str) -> list[str]:
    """Return the sets of a metric that is named as the recipe `student` names its teacher."""
    name, _, fields = teacher.partition(";")
    with suppress(DialevalError):
        teacher_metric = build(f"{name}:{fields.replace(';', ',')}" if fields else name)
        return sorted({entry for model in training_data(teacher_metric) for entry in model.sets})
    return []
