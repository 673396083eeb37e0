"""Scores arrive: at receivers on this machine, in MLflow's store, in an offline run of Weights & Biases."""

import base64
import contextlib
import http.server
import importlib.metadata
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dialeval
from dialeval.errors import DialevalError, UsageError
from dialeval.jobs.exporting import export, figures
from dialeval.jobs.runs import Run
from dialeval.jobs.scoring import score_to

SAMPLES = Path(__file__).parents[1] / "dialogues" / "samples"
EXAMPLES = Path(dialeval.__file__).parent / "dialogues" / "examples" / "dialogues.jsonl"


class Receiver(http.server.ThreadingHTTPServer):
    """Keeps what is posted to it: path, headers and body."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.got: list[tuple[str, dict[str, str], Any]] = []
        self.status = 200

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answer(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.append((self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    """A run of a session that was traced by Langfuse."""
    chats = dialeval.read(SAMPLES / "langfuse-traces.json", note=lambda _: None)
    score_to(chats, ["length", "turns"], tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    score_to(dialeval.read(EXAMPLES), ["repetition", "turns"], tmp_path / "run")
    return tmp_path / "run"


def test_langfuse_gets_scores_of_traces_and_sessions(
    traced: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGFUSE_HOST", receiver.address)
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk")
    rows = [row for row in Run(traced).own_scores() if row.value is not None]
    assert export(traced, "langfuse") == f"{receiver.address}: {len(rows)} scores"
    assert {path for path, _, _ in receiver.got} == {"/api/public/scores"}
    assert {headers["Authorization"] for _, headers, _ in receiver.got} == {"Basic cGs6c2s="}
    bodies = [body for _, _, body in receiver.got]
    turns = next(one for one in bodies if one["name"] == "turns/turns")
    assert turns["sessionId"] == "s-1" and turns["value"] == next(r.value for r in rows if r.turn is None)
    replies = [one for one in bodies if one["name"] == "length/words"]
    traces = {one["id"] for one in json.loads((SAMPLES / "langfuse-traces.json").read_text())}
    assert replies and {one["traceId"] for one in replies} <= traces
    export(traced, "langfuse")
    assert len({body["id"] for _, _, body in receiver.got}) == len(rows), "again is the same score"


def test_langfuse_takes_what_is_sent_for_a_score(
    traced: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the description of the request in Langfuse's own library."""
    if not importlib.util.find_spec("langfuse"):
        pytest.skip("langfuse is not installed: pip install --group trackers")
    code = (
        "import json, sys; from langfuse.api import CreateScoreRequest as Request\n"
        "from langfuse.api.core.serialization import convert_and_respect_annotation_metadata as named\n"
        "for one in json.load(sys.stdin):\n"
        "    one = named(object_=one, annotation=Request, direction='read')\n"
        "    made = Request.model_validate(one); assert not made.model_extra, made.model_extra\n"
        "    print(made.name, made.value, made.trace_id or made.session_id)"
    )
    for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"):
        monkeypatch.setenv(name, "key")
    monkeypatch.setenv("LANGFUSE_BASE_URL", receiver.address)
    export(traced, "langfuse")
    bodies = json.dumps([body for _, _, body in receiver.got])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        input=bodies,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(receiver.got)


def test_a_collector_gets_events(traced: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b")
    rows = [row for row in Run(traced).own_scores() if row.value is not None]
    assert export(traced, "otel", "bot") == f"{receiver.address}: {len(rows)} events of service bot"
    ((path, headers, body),) = receiver.got
    assert (path, headers["x-key"]) == ("/v1/logs", "a b")
    (logs,) = body["resourceLogs"]
    assert logs["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "bot"}}]
    events = logs["scopeLogs"][0]["logRecords"]
    told = [{one["key"]: one["value"] for one in event["attributes"]} for event in events]
    values = [one["gen_ai.evaluation.score.value"]["doubleValue"] for one in told]
    assert values == [row.value for row in rows]
    assert {one["gen_ai.conversation.id"]["stringValue"] for one in told} == {"s-1"}


def test_the_protocol_of_opentelemetry_reads_the_events(
    run: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = pytest.importorskip(
        "opentelemetry.proto.collector.logs.v1.logs_service_pb2", reason="pip install --group trackers"
    )
    from google.protobuf.json_format import ParseDict

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
    export(run, "otel")
    count = 0
    for _, _, body in receiver.got:
        for event in body["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
            if "traceId" in event:  # hexadecimal in OTLP, base64 for protobuf
                event["traceId"] = base64.b64encode(bytes.fromhex(event["traceId"])).decode()
        request = ParseDict(body, service.ExportLogsServiceRequest())  # refuses unknown fields
        records = request.resource_logs[0].scope_logs[0].log_records
        assert {record.event_name for record in records} == {"gen_ai.evaluation.result"}
        count += len(records)
    assert count == sum(row.value is not None for row in Run(run).own_scores())


def in_own_process(code: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def has_package(name: str) -> bool:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version(name))
    return False


QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
EXPORT = "from dialeval.jobs.exporting import export; print(export('run', {to!r}, 'my bot'))\n"


LOOK_IN_MLFLOW = (
    "import json, mlflow\n"
    "(run,) = mlflow.search_runs(experiment_names=['my bot'], output_format='list')\n"
    "files = [one.path for one in mlflow.artifacts.list_artifacts(run_id=run.info.run_id)]\n"
    "print(json.dumps([run.data.metrics, run.data.tags, files, run.info.status]))"
)


def has_the_run_in_mlflow(run: Path, folder: Path, address: str) -> None:
    printed = in_own_process(
        EXPORT.format(to="mlflow") + LOOK_IN_MLFLOW,
        folder,
        MLFLOW_TRACKING_URI=address,
        MLFLOW_ALLOW_FILE_STORE="true",
        **QUIET,
    )
    means, tags, files, status = json.loads(printed.splitlines()[-1])
    assert means == pytest.approx(figures(Run(run)))
    assert means["repetition/repetition/turn/repetitive-bot"] > 0.3
    assert tags["signature.turns"].startswith("turns.v1|")
    assert (files, status) == (["scores.parquet"], "FINISHED")


@pytest.mark.skipif(not importlib.util.find_spec("mlflow"), reason="pip install --group trackers")
def test_mlflow_has_a_run_with_means_signatures_and_table(run: Path, tmp_path: Path) -> None:
    has_the_run_in_mlflow(run, tmp_path, (tmp_path / "store").as_uri())


@pytest.mark.skipif(not importlib.util.find_spec("mlflow"), reason="pip install --group trackers")
def test_an_address_that_is_no_store_of_mlflow_is_one_line(run: Path, tmp_path: Path) -> None:
    code = (
        "from dialeval.errors import DialevalError\n"
        "from dialeval.jobs.exporting import export\n"
        "try: export('run', 'mlflow')\nexcept DialevalError as error: print(error)"
    )
    printed = in_own_process(code, tmp_path, MLFLOW_TRACKING_URI="gopher://here", **QUIET)
    assert printed.startswith("run: export to mlflow failed: ")
    assert printed.endswith("(check MLFLOW_TRACKING_URI, the address of your server)\n")
    assert printed.count("\n") == 1


@pytest.fixture
def mlflow_server(tmp_path: Path) -> Iterator[str]:
    """MLflow's own server, as it comes from PyPI, on a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    places = (
        "--backend-store-uri",
        f"sqlite:///{tmp_path}/mlflow.db",
        "--artifacts-destination",
        "artifacts",
    )
    words = (sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1", *places)
    log = tmp_path / "server.log"
    with log.open("wb") as said:
        server = subprocess.Popen(
            words,
            cwd=tmp_path,
            stdout=said,
            stderr=said,
            env={**os.environ, **QUIET},
            start_new_session=True,
        )
    try:
        wait_for(f"{address}/health", server, log)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(address) as answer:
            return answer.close()
        time.sleep(0.2)
    pytest.fail(log.read_text(encoding="utf-8"))


@pytest.mark.skipif(
    not has_package("mlflow"), reason="has no server (mlflow-skinny at most): pip install mlflow"
)
def test_a_server_of_mlflow_has_the_run(run: Path, tmp_path: Path, mlflow_server: str) -> None:
    has_the_run_in_mlflow(run, tmp_path, mlflow_server)


def test_weights_and_biases_has_an_offline_run(run: Path, tmp_path: Path) -> None:
    if not importlib.util.find_spec("wandb"):
        pytest.skip("wandb is not installed: pip install --group trackers")
    printed = in_own_process(
        EXPORT.format(to="wandb"),
        tmp_path,
        WANDB_MODE="offline",
        WANDB_DIR=str(tmp_path),
        WANDB_SILENT="true",
    )
    assert "project my bot, run " in printed
    (kept,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert b"repetition/repetition/turn/repetitive-bot" in kept.read_bytes()


def test_what_goes_wrong_is_one_line(
    traced: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="no exporter 'post'; known: hub, langfuse, mlflow, otel, wandb"):
        export(traced, "post")
    with pytest.raises(UsageError, match="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"):
        export(traced, "langfuse")
    with pytest.raises(UsageError, match="--name organisation/name"):
        export(traced, "hub")
    receiver.status = 401
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
    with pytest.raises(DialevalError, match="HTTP 401"):
        export(traced, "otel")


def test_no_text_of_a_dialogue_leaves(run: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"):
        monkeypatch.setenv(name, "key")
    for name in ("LANGFUSE_HOST", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.setenv(name, receiver.address)
    for to in ("langfuse", "otel"):
        export(run, to)
    sent = json.dumps([body for _, _, body in receiver.got])
    said = [turn.text for chat in dialeval.read(EXAMPLES) for turn in chat.turns if len(turn.text) > 20]
    assert said and not any(json.dumps(text)[1:-1] in sent for text in said)
