"""Scores go where people look already: MLflow, Weights & Biases, Langfuse, OpenTelemetry, the Hub.

An exporter is a function of a run folder and a name; other packages add theirs by the entry point
`dialeval.exporters`. Scores, means and signatures leave, never the text of a dialogue.
"""

import base64
import hashlib
import importlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import unquote

from dialeval import __version__
from dialeval.errors import DataError, DialevalError, UsageError
from dialeval.jobs.runs import Run
from dialeval.models.endpoint import Endpoint
from dialeval.plugins import load_plugin, plugins
from dialeval.scores import Score

_SETTINGS = {  # what is wrong most often when a library gives up
    "mlflow": "MLFLOW_TRACKING_URI, the address of your server",
    "wandb": "your key: wandb login, or WANDB_MODE=offline",
}
_AT_ONCE = 8  # scores under way to Langfuse
_EVENTS = 1000  # in one request to a collector
_TRACE = re.compile(r"[0-9a-f]{32}")


class Exporter(Protocol):
    """Sends the scores of a run under a name, and returns where they are."""

    def __call__(self, run: Run, name: str) -> str:
        """Send them."""
        ...


def exporter_names() -> tuple[str, ...]:
    """Names of all exporters, those of other packages too.

    >>> exporter_names()[:5]
    ('hub', 'langfuse', 'mlflow', 'otel', 'wandb')
    """
    return (*_EXPORTERS, *sorted(plugins("exporters", _EXPORTERS)))


def export(folder: str | Path, to: str, name: str | None = None) -> str:
    """Send the scores of a run folder to another tool, and return where they are.

    Args:
        to: One of `exporter_names()`.
        name: Experiment (MLflow), project (Weights & Biases), service (OpenTelemetry) or repository (the
            Hub); by default `dialeval`.
    """
    if to not in exporter_names():
        raise UsageError(f"no exporter {to!r}; known: {', '.join(exporter_names())}")
    external = plugins("exporters", _EXPORTERS)
    send = _EXPORTERS.get(to) or cast(Exporter, load_plugin(external[to], object))
    try:
        return send(Run(folder), name or "dialeval")
    except DialevalError:
        raise
    except Exception as error:  # each library has many kinds of its own
        message = " ".join(str(error).split())[:300] or "no reason given"
        fix = f"check {_SETTINGS.get(to, 'its address and your key for it')}"
        raise DataError(
            f"export to {to} failed: {type(error).__name__}: {message}", file=folder, fix=fix
        ) from None


def figures(run: Run) -> dict[str, float]:
    """Return the means of a run by source, dimension, level and system, in names that every tool takes."""
    rows = [row for row in run.own_scores().summary() if row["mean"] is not None]
    return {
        re.sub(r"[^\w./ :-]", "_", "/".join(filter(None, (row[key] for key in _KEYS)))): row["mean"]
        for row in rows
    }


_KEYS = ("source", "dimension", "level", "system")


def _signatures(run: Run) -> dict[str, str]:
    return {source: str(signature) for source, signature in run.own_scores().signatures.items()}


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(f"this needs a library that is not installed: pip install {name}") from None


def _to_mlflow(run: Run, name: str) -> str:
    """Make a run of an experiment at `MLFLOW_TRACKING_URI`: means, signatures as tags, table of scores."""
    mlflow = _library("mlflow")
    mlflow.set_experiment(name)
    with mlflow.start_run(run_name=run.path.name) as active_run, tempfile.TemporaryDirectory() as folder:
        mlflow.log_metrics(figures(run))
        mlflow.set_tags({f"signature.{source}": text for source, text in _signatures(run).items()})
        mlflow.log_artifact(str(_table(run, folder)))
    return f"{mlflow.get_tracking_uri()}: experiment {name}, run {active_run.info.run_id}"


def _to_wandb(run: Run, name: str) -> str:
    """Make a run of a project: means as its summary, signatures as its configuration, the table of scores."""
    wandb = _library("wandb")
    settings = {"signatures": _signatures(run), "dialeval": __version__}
    with (
        tempfile.TemporaryDirectory() as folder,
        wandb.init(project=name, name=run.path.name, config=settings) as active_run,
    ):
        active_run.summary.update(figures(run))
        table = wandb.Artifact("scores", "dialeval-scores")
        table.add_file(str(_table(run, folder)))
        active_run.log_artifact(table)
        return f"{active_run.url or active_run.dir}: project {name}, run {active_run.id}"


def _to_hub(run: Run, name: str) -> str:
    """Push the table of scores as a private data set, with a card that has means and signatures."""
    from dialeval.models.hub import push_dataset

    if "/" not in name:
        raise UsageError("a data set of the Hub has a name of two parts: --name organisation/name")
    with tempfile.TemporaryDirectory() as folder:
        _table(run, folder)
        rows = [f"| {key} | {mean:.4g} |" for key, mean in figures(run).items()]
        signature_lines = [f"- `{text}`" for text in _signatures(run).values()]
        lines = ["---", "tags: [dialeval]", "---", f"# Scores of {run.path.name}", "", "| score | mean |"]
        card = [*lines, "|---|---|", *rows, "", "How they were made:", "", *signature_lines, ""]
        Path(folder, "README.md").write_text("\n".join(card), encoding="utf-8")
        return push_dataset(folder, name)


def _table(run: Run, folder: str) -> Path:
    path = Path(folder) / "scores.parquet"
    run.own_scores().write_parquet(path)
    return path


@dataclass(frozen=True, slots=True)
class _Receiver(Endpoint):
    """An address that takes JSON, with headers of its own in the place of a model's key."""

    own_headers: tuple[tuple[str, str], ...] = ()

    def _headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", **dict(self.own_headers)}


def _to_langfuse(run: Run, name: str) -> str:
    """Add scores to the traces and sessions that dialogues were read from; again replaces them."""
    keys = [os.environ.get(f"LANGFUSE_{kind}_KEY", "") for kind in ("PUBLIC", "SECRET")]
    if not all(keys):
        raise UsageError("Langfuse needs LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY in the environment")
    host = os.environ.get("LANGFUSE_BASE_URL") or os.environ.get("LANGFUSE_HOST")
    basic = f"Basic {base64.b64encode(':'.join(keys).encode()).decode()}"
    server = _Receiver(host or "https://cloud.langfuse.com", own_headers=(("Authorization", basic),))
    signatures = _signatures(run)

    def send(item: tuple[Score, str | None]) -> None:
        row, trace = item
        key = f"{name}|{row.dialogue_id}|{row.turn}|{row.source}|{row.dimension}"
        body = {
            "id": hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32],
            "name": f"{row.source}/{row.dimension}",
            "value": row.value,
            "dataType": "NUMERIC",
            **({"traceId": trace} if trace else {"sessionId": row.dialogue_id}),
            **({"comment": row.note} if row.note else {}),
            "metadata": {"turn": row.turn, "signature": signatures.get(row.source)},
        }
        server.post("/api/public/scores", body)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        count = sum(1 for _ in pool.map(send, _with_traces(run)))
    return f"{server.address}: {count} scores"


def _to_otel(run: Run, name: str) -> str:
    """Send each score as an event `gen_ai.evaluation.result` to a collector, over HTTP in JSON."""
    address = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318"
    pairs = [
        pair.partition("=") for pair in os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",") if pair
    ]
    headers = tuple((key.strip(), unquote(value.strip())) for key, _, value in pairs)
    server, signatures = _Receiver(address, own_headers=headers), _signatures(run)
    now, events = str(time.time_ns()), []
    for row, trace in _with_traces(run):
        attributes = {
            "gen_ai.evaluation.name": f"{row.source}/{row.dimension}",
            "gen_ai.evaluation.score.value": row.value,
            "gen_ai.evaluation.explanation": row.note,
            "gen_ai.conversation.id": row.dialogue_id,
            "dialeval.turn": row.turn,
            "dialeval.system": row.system,
            "dialeval.signature": signatures.get(row.source),
        }
        event = {
            "timeUnixNano": now,
            "eventName": "gen_ai.evaluation.result",
            "attributes": _attributes(attributes),
        }
        events.append(event | ({"traceId": trace} if trace and _TRACE.fullmatch(trace) else {}))
    scope = {"name": "dialeval", "version": __version__}
    resource = {"attributes": _attributes({"service.name": name})}
    for first in range(0, len(events), _EVENTS):
        logs = [{"scope": scope, "logRecords": events[first : first + _EVENTS]}]
        server.post("/v1/logs", {"resourceLogs": [{"resource": resource, "scopeLogs": logs}]})
    return f"{address}: {len(events)} events of service {name}"


def _attributes(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    """Write attributes as OTLP has them; whole numbers are text there."""
    kinds = {str: "stringValue", float: "doubleValue", int: "intValue"}
    return [
        {"key": key, "value": {kinds[type(value)]: str(value) if isinstance(value, int) else value}}
        for key, value in attributes.items()
        if value is not None
    ]


def _with_traces(run: Run) -> Iterator[tuple[Score, str | None]]:
    """Yield the rows that have a value, with the trace that a turn, or a whole dialogue, was read from."""
    traces: dict[tuple[str, int | None], str] = {}
    for dialogue in run.dialogues():
        if trace := dialogue.meta.get("trace"):
            traces[dialogue.id, None] = str(trace)
        for number, turn in enumerate(dialogue.turns):
            if trace := turn.meta.get("trace"):
                traces[dialogue.id, number] = str(trace)
    for row in run.own_scores():
        if row.value is not None:
            yield row, traces.get((row.dialogue_id, row.turn))


_EXPORTERS: dict[str, Exporter] = {
    "hub": _to_hub,
    "langfuse": _to_langfuse,
    "mlflow": _to_mlflow,
    "otel": _to_otel,
    "wandb": _to_wandb,
}
