"""`dialeval benchmark multiwoz`: Inform, Success, BLEU and Combined of whole systems."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dialeval.cli import output
from dialeval.errors import UsageError

if TYPE_CHECKING:
    from dialeval.jobs.task_figures import SystemFigures, TaskTable

_HEAD = ("Inform", "Success", "BLEU", "Combined")


def show(metrics: Sequence[str], predictions: Sequence[str], json: bool) -> None:
    """Print the figures of every system, best on top, with the gold ceiling and published figures beside."""
    from dialeval.jobs.task_figures import task_table

    if len(metrics) > 1:
        raise UsageError("benchmark multiwoz: one metric, multiwoz, with its fields: -m multiwoz:states=gold")
    with output.progress("dialogues judged") as watch:
        found = task_table(metrics[0] if metrics else "multiwoz", predictions, watch)
    if json:
        output.print_json(found.to_dict())
        return
    _show_systems(found)
    _show_domains(found)
    _say(found)


def _show_systems(found: "TaskTable") -> None:
    published = any(row.published for row in found.systems)
    header: tuple[str, ...] = ("system", "setting", "n", "unscored", "missing", *_HEAD)
    rows = [
        (row.system, row.published.get("table"), row.n, row.n_unscored, row.n_missing, *_cells(row))
        for row in found.systems
    ]
    if published:
        header += tuple(f"{name} (published)" for name in _HEAD)
        rows = [(*cells, *_published(row)) for cells, row in zip(rows, found.systems, strict=True)]
    output.print_table("Systems", header, rows)


def _cells(row: "SystemFigures") -> tuple[str, ...]:
    return tuple(map(_figure, (row.inform.value, row.success.value, row.bleu, row.combined)))


def _published(row: "SystemFigures") -> tuple[str, ...]:
    return tuple(_figure(row.published.get(name.lower())) for name in _HEAD)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _show_domains(found: "TaskTable") -> None:
    """Print Inform / Success of each domain."""
    names = sorted({name for row in found.systems for name in row.domains})
    rows: list[tuple[Any, ...]] = [
        (row.system, *(_pair(row.domains.get(name)) for name in names)) for row in found.systems
    ]
    if names:
        output.print_table("Inform / Success by domain", ("system", *names), rows, further=True)


def _pair(figures: dict[str, Any] | None) -> str:
    return "-" if figures is None else f"{figures['inform']:.1f} / {figures['success']:.1f}"


def _say(found: "TaskTable") -> None:
    from dialeval.jobs.task_figures import GOLD

    for row in found.systems:
        for remark in row.remarks:
            output.say(f"{row.system}: {remark}")
    if any(row.system == GOLD for row in found.systems):
        output.say(f"{GOLD}: the references with gold states, the ceiling of Inform and Success")
    if any(row.published for row in found.systems):
        output.say("published BLEU is against other references (MultiWOZ 2.2), so it and Combined differ")
    for row in found.systems:
        if row.published_sum is not None:
            output.say(
                f"{row.system}: the published Combined is not (Inform + Success) / 2 + BLEU of the published "
                f"figures, which is {row.published_sum:.1f}"
            )
    if found.references:
        output.say(f"BLEU: {found.references}, lower case, placeholders by one name; sacrebleu {found.bleu}")
    output.say(f"multiwoz: {found.signature}")
