"""Every reader of files that somebody else may have made, each with a good file or two to begin from.

`read` is given the path of a file; only `DialevalError` may come out of it. Where what is read is a folder
(an artefact, an index, a task), the file takes the place of one of its files, and hashes are made to fit, so
that what is tried lies behind them.
"""

import functools
import hashlib
import io
import itertools
import json
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import specimens
from mutation import Mutate, any_json, any_line, any_table, any_weights, one_of

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Reader:
    """A way into the package: what its files are called, how they are read, what good ones look like."""

    name: str
    file: str
    read: Callable[[Path], object]
    seeds: Callable[[], Sequence[bytes]]
    mutate: Mutate = one_of(any_json, any_line)


READERS: dict[str, Reader] = {}


def reader(name: str, file: str, seeds: Callable[[], Sequence[bytes]], mutate: Mutate | None = None) -> Any:
    def add(read: Callable[[Path], object]) -> Callable[[Path], object]:
        READERS[name] = Reader(name, file, read, seeds, *([mutate] if mutate else []))
        return read

    return add


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in records)


def parquet(rows: list[dict[str, Any]], metadata: dict[bytes, bytes] | None = None) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows).replace_schema_metadata(metadata), out)
    return out.getvalue()


def shipped(*parts: str) -> bytes:
    import dialeval

    return Path(dialeval.__file__).parent.joinpath(*parts).read_bytes()


def few(data: bytes, count: int = 3) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:count])


@functools.cache
def _room() -> Path:
    import atexit

    made = Path(tempfile.mkdtemp(prefix="dialeval-readers-", dir=specimens.memory()))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def fresh() -> Path:
    """Return a folder that is not there yet: what is loaded once must not be taken for what was there before."""
    return _room() / f"{os.getpid()}-{next(_NUMBERS)}"


# --- dialogues ----------------------------------------------------------------------------------------------

_SAID = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "meta": {"a": 1}}]
_SHAREGPT = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}
_CONVLAB = {
    "dialogue_id": "c",
    "turns": [{"speaker": "user", "utterance": "Hi", "utt_idx": 0}, {"speaker": "system", "utterance": "Yes"}],
}
_PARLAI = {"dialog": [[{"id": "human", "text": "Hi"}, {"id": "model", "text": "Yes", "episode_done": True}]]}
_PARTS = {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image", "url": "x"}]}
_OURS = {"id": "a", "system": "s", "messages": _SAID, "references": {"1": ["Yes"]}, "meta": {"k": [1]}}


def _dialogue_lines() -> list[bytes]:
    return [lines(_OURS, {"messages": [_PARTS, {"role": "tool", "content": "22"}]}), lines(_SHAREGPT), lines(_CONVLAB), lines(_PARLAI)]


def _dialogue_arrays() -> list[bytes]:
    predictions = {"sng0073": [{"response": "[name] ?", "state": {"a": {"b": "c"}}}, "yes"], "x": []}
    return [
        json.dumps([_OURS, {**_OURS, "id": "b"}], indent=1).encode(),
        json.dumps([_CONVLAB]).encode(),
        json.dumps(predictions).encode(),
        json.dumps(predictions, indent=1).encode(),
    ]


def _dialogue_tables() -> list[bytes]:
    from dialeval.dialogues.formats.tables import OURS

    foreign = b'session_id,turn,role,content,extra\r\na,1,user,"Hi, you",x\r\na,2,system,Hello,\r\nb,1,user,Hi,y\r\n'
    own = ",".join(OURS).encode() + b'\r\na,0,user,Hi,s,,"{""turn"": {}, ""dialogue"": {""k"": 1}}"\r\na,1,assistant,\'=x,s,"[""Yes""]",{}\r\n'
    return [foreign, own]


def _read_dialogues(path: Path) -> object:
    from dialeval.dialogues import formats

    found = list(formats.read(path))
    for ending in (".jsonl", ".csv", ".parquet"):  # what was read can be written
        formats.write(found, _room() / f"again{ending}")
    return found


reader("dialogues as JSON lines", "chats.jsonl", _dialogue_lines)(_read_dialogues)
reader("dialogues as JSON", "chats.json", _dialogue_arrays)(_read_dialogues)
reader("dialogues as CSV", "chats.csv", _dialogue_tables, one_of(any_line))(_read_dialogues)
reader(
    "dialogues as TSV", "chats.tsv", lambda: [_dialogue_tables()[0].replace(b",", b"\t")], one_of(any_line)
)(_read_dialogues)


@reader(
    "dialogues as text",
    "chats.txt",
    lambda: [b"User: Hi\nSystem: Hello\n  and more\n\nAlice: x\nBob:\n"],
    one_of(any_line),
)
def _text(path: Path) -> object:
    return _read_dialogues(path)


@reader("gzipped dialogues", "chats.jsonl.gz", lambda: [specimens.gzipped(_dialogue_lines()[0])], specimens.any_gzip)
def _gzip(path: Path) -> object:
    return _read_dialogues(path)


def _dialogue_parquet() -> list[bytes]:
    packed = [{**one, "meta": "{}"} for one in _SAID]
    return [
        parquet([{"id": "a", "messages": _SAID[:1]}]),
        parquet([_SHAREGPT]),
        parquet([{"id": "a", "system": "s", "messages": packed, "references": "{}", "meta": "{}"}], {b"dialeval": b"1"}),
        parquet([{"dialogue_id": "a", "turn": n, "speaker": "user", "text": "Hi"} for n in range(2)]),
    ]


reader("dialogues as Parquet", "chats.parquet", _dialogue_parquet, one_of(any_table))(_read_dialogues)


@reader("votes", "votes.jsonl", lambda: [few(shipped("dialogues", "examples", "votes.jsonl"))])
def _votes(path: Path) -> object:
    from dialeval.dialogues.votes import read_votes

    return read_votes(path)


def _acts() -> list[bytes]:
    segment = {"index": "c_test_1_0_0", "fs_text": "Hi.", "annotation": "greeting", "annotation_raw": ["inform", None]}
    return [json.dumps([segment, {**segment, "index": "c_test_1_1_0"}]).encode()]


@reader("segment acts", "acts.json", _acts)
def _segments(path: Path) -> object:
    from dialeval.dialogues.act_votes import settle, voted
    from dialeval.dialogues.datasets.actdial import holds_segments, read_dialogues

    holds_segments(path)
    found = [settle(one) for one in read_dialogues(path)]
    return list(voted(found))


def _task_reader(name: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        import dialeval
        from dialeval.dialogues.tasks import open_task

        folder = fresh()
        shutil.copytree(Path(dialeval.__file__).parent / "dialogues" / "tasks" / "example", folder)
        shutil.copyfile(path, folder / name)
        try:
            task = open_task(str(folder / "task.toml"))
            found = [task.goals, task.booked, task.states, task.references, task.expected]
            for table in task.venues.values():
                found.append(table.query({"area": "harbour", "leave": "10:00", "name": "x"}))
            return found + [task.wishes(goal) for wanted in task.goals.values() for goal in wanted.values()]
        finally:
            shutil.rmtree(folder)

    return read


for _name in ("task.toml", "goals.json", "states.json", "references.json", "cafes.jsonl", "boats.csv"):
    reader(
        f"task: {_name}",
        _name,
        functools.partial(lambda name: [shipped("dialogues", "tasks", "example", name)], _name),
    )(_task_reader(_name))

# --- scores and studies -------------------------------------------------------------------------------------


def _scores() -> Any:
    from dialeval.scores import Score, Scores, Signature

    rows = [
        Score("a", None, "bot", "length", "score", 1.5),
        Score("a", 1, None, "human:ann", "overall", None, "skipped"),
        Score("=b", 3, "bot", "length", "score", -2.0, "truncated"),
    ]
    return Scores.of(rows, {"length": Signature.parse("length.v1|unit:words|dialeval:0.1.0")})


def _score_files(ending: str) -> list[bytes]:
    path = _room() / f"scores-{next(_NUMBERS)}{ending}"
    _scores().write(path)
    return [path.read_bytes()]


def _read_scores(path: Path) -> object:
    from dialeval.scores import Scores

    found = Scores.read(path)
    return found.summary(), found.duplicates(), list(found)


reader("scores as CSV", "s.csv", lambda: _score_files(".csv"), one_of(any_line))(_read_scores)
reader("scores as JSON lines", "s.jsonl", lambda: _score_files(".jsonl"))(_read_scores)
reader("scores as Parquet", "s.parquet", lambda: _score_files(".parquet"), one_of(any_table))(_read_scores)

_FOREIGN = "id=conversation,value=score,source=judge,turn=turn,rater=who,dimension=aspect,note=why"


def _read_columns(path: Path) -> object:
    from dialeval.scores import ColumnMap, read_columns

    return read_columns(path, ColumnMap.parse(f"{path}:{_FOREIGN}")[1])


_ROWS = [
    {"conversation": "a", "score": "4", "turn": 1, "who": "ann", "aspect": "fluent", "why": None},
    {"conversation": 7, "score": "N/A", "turn": "", "who": "", "aspect": None, "why": "x"},
]
_COLUMNS_CSV = b"conversation,score,turn,who,aspect,why\na,4,1,ann,fluent,\nb,N/A,,,,x\n"
reader("foreign columns, CSV", "j.csv", lambda: [_COLUMNS_CSV], one_of(any_line))(_read_columns)
reader("foreign columns, JSON lines", "j.jsonl", lambda: [lines(*_ROWS)])(_read_columns)
reader("foreign columns, Parquet", "j.parquet", lambda: [parquet([{**_ROWS[0]}])], one_of(any_table))(_read_columns)


@functools.cache
def _a_study() -> bytes:
    from dialeval.scores import Score, Scores
    from dialeval.studies import study

    rows = [
        Score(f"d{n}", None, f"bot-{n % 2}", source, "x", float((n * step) % 5))
        for n in range(8)
        for source, step in (("human:a", 1), ("human:b", 3), ("length", 7))
    ]
    return study(Scores.of(rows), by="system", resamples=10, permutations=10).to_json().encode()


@reader("study.json", "study.json", lambda: [_a_study()], one_of(any_json))
def _study(path: Path) -> object:
    from dialeval.jobs.runs import Run
    from dialeval.reports.latex import to_latex
    from dialeval.reports.markdown import to_markdown

    shutil.copyfile(path, _run_folder() / "study.json")
    (_run_folder() / "run.json").write_bytes(b"{}")
    run = Run(_run_folder())
    found = run.study()
    assert found is not None
    with run.showing_study():
        return to_markdown(found), to_latex(found)


@functools.cache
def _run_folder() -> Path:
    folder = fresh()
    folder.mkdir()
    (folder / "dialogues.jsonl").write_bytes(lines(_OURS))
    _scores().write(folder / "scores.parquet")
    return folder


@reader("run.json", "run.json", lambda: [b'{"input": "chats.jsonl", "signatures": {"length": "length.v1"}, "dialogues": 1}'])
def _run(path: Path) -> object:
    from dialeval.jobs.runs import Run

    shutil.copyfile(path, _run_folder() / "run.json")
    run = Run(_run_folder())
    return run.info().get("illustrative"), run.scores(), list(run.dialogues())


def _an_explanation() -> list[bytes]:
    from dialeval.metrics.explanation import Explanation, Side, to_json

    dialogue = Side("d1", ())
    return [to_json(Explanation("d1", "flow", 0.5, {"acts": 0.25}, dialogue)) + b"\n"]


@reader("explanations", "explanations.jsonl", lambda: [specimens.an_explanation(), *_an_explanation()])
def _explanations(path: Path) -> object:
    from dialeval.metrics.explanation import read_explanations, to_json

    return [to_json(one) for one in read_explanations(path)]


# --- what people write by hand ------------------------------------------------------------------------------


def _schemes() -> list[bytes]:
    from dialeval.annotation import SCHEMES
    from dialeval.annotation.scheme import scheme_text

    return [scheme_text(name)[0].encode() for name in SCHEMES]


@reader("scheme", "scheme.toml", _schemes, one_of(any_line))
def _scheme(path: Path) -> object:
    from dialeval.annotation import read_scheme

    return [one.options for one in read_scheme(path).questions]


@reader("rubrics", "rubrics.toml", lambda: [shipped("metrics", "rubrics.toml")], one_of(any_line))
def _rubrics(path: Path) -> object:
    from dialeval.metrics.rubric import load_rubrics, rubrics_mark

    return rubrics_mark(str(path), "all"), load_rubrics(str(path), "all")


@reader("sets of follow-ups", "sets.toml", lambda: [shipped("metrics", "followups.toml")], one_of(any_line))
def _sets(path: Path) -> object:
    from dialeval.metrics.reaction_sets import load_sets, sets_mark

    return sets_mark(str(path)), load_sets(str(path))


_OPTIONS = (
    "judge.csv:id=conversation,value=score,source=gpt-4",
    "id=session,text=body",
    "wide=floweval:ka=80,w=0.2",
    "both=zmean:metric-1+metric-2",
    "length.v1|unit:words|better:self=lower|dialeval:0.1.0",
    "set:conture/dev[0:10]",
)


@reader("options", "option.txt", lambda: [one.encode() for one in _OPTIONS], one_of(any_line))
def _options(path: Path) -> object:
    """Parse a text in every notation that the command line knows; each may refuse it, none may break."""
    from dialeval.dialogues.formats.tables import TurnColumns
    from dialeval.dialogues.splits import parse_selector
    from dialeval.errors import DialevalError
    from dialeval.metrics import build
    from dialeval.metrics.registry import parse_spec
    from dialeval.scores import ColumnMap, Signature
    from dialeval.studies.combination import Combination

    text = path.read_text(encoding="utf-8", errors="replace")[:2000]
    ways: tuple[Callable[[str], object], ...] = (
        *(ColumnMap.parse, TurnColumns.parse, parse_spec, Combination.parse, parse_selector),
        lambda text: str(Signature.parse(text)),
        lambda text: build(f"length:{text}"),
    )
    found = []
    for way in ways:
        try:
            found.append(way(text))
        except DialevalError as error:
            found.append(str(error))
    return found


def _foreign_answers() -> list[bytes]:
    return [specimens.answers(_annotated(), "label-studio"), specimens.answers(_annotated(), "potato")]


@functools.cache
def _annotated() -> Any:
    return specimens.annotated(fresh())


@reader("answers of other tools", "answers.json", _foreign_answers)
def _answers(path: Path) -> object:
    from dialeval.annotation.exchange import load

    return load(_annotated(), path)


# --- models -------------------------------------------------------------------------------------------------


@reader("safetensors", "w.safetensors", specimens.weights, one_of(any_weights))
def _tensors(path: Path) -> object:
    from dialeval.models.tensors import expand, read_tensors

    return [value.sum() for value in expand(read_tensors(path), file=path).values()]


@reader("GGUF", "m.gguf", specimens.ggufs, specimens.any_gguf)
def _gguf(path: Path) -> object:
    return specimens.ask(path)


@reader("tokenizer", "tokenizer.json", specimens.tokenizers, one_of(any_json))
def _tokenizer(path: Path) -> object:
    from dialeval.models.tokens import Tokenizer

    found = Tokenizer(path, 16)
    return found.special(), found.encode(["a b c" * 10, ""]), found.bare(["a \ud800"])


def signed_copy(source: Path, name: str, path: Path) -> Path:
    """Copy an artefact with one of its files exchanged, and make its list of hashes fit."""
    folder = fresh()
    shutil.copytree(source, folder, copy_function=os.link)
    (folder / name).unlink(missing_ok=True)
    shutil.copyfile(path, folder / name)
    listed = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in folder.iterdir() if one.name != "SHA256SUMS"}
    (folder / "SHA256SUMS").unlink()
    (folder / "SHA256SUMS").write_text("".join(f"{sha}  {name}\n" for name, sha in sorted(listed.items())))
    return folder


def _artefact_reader(kind: str, name: str) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        folder = signed_copy(specimens.artefacts()[kind], name, path)
        try:
            return specimens.use(kind, folder)
        finally:
            shutil.rmtree(folder)

    return read


for _kind in specimens.USES:
    reader(
        f"artefact {_kind}: config.json",
        "config.json",
        functools.partial(lambda kind: [(specimens.artefacts()[kind] / "config.json").read_bytes()], _kind),
        one_of(any_json),
    )(_artefact_reader(_kind, "config.json"))
for _kind in ("dialogue-scorer.v1", "encoder.v1"):
    reader(
        f"artefact {_kind}: weights",
        "model.safetensors",
        functools.partial(lambda kind: [(specimens.artefacts()[kind] / "model.safetensors").read_bytes()], _kind),
        one_of(any_weights),
    )(_artefact_reader(_kind, "model.safetensors"))


@reader("SHA256SUMS", "SHA256SUMS", lambda: [(specimens.artefacts()["blend.v1"] / "SHA256SUMS").read_bytes()], one_of(any_line))
def _sums(path: Path) -> object:
    from dialeval.models.untrusted import read_sums

    return read_sums(path)


@reader("model as the Hub has it: config.json", "config.json", lambda: [specimens.hub_config()], one_of(any_json))
def _hub(path: Path) -> object:
    return specimens.convert(path, fresh())


@reader("index: config.json", "config.json", lambda: [specimens.index_file("config.json")], one_of(any_json))
def _index_config(path: Path) -> object:
    return specimens.open_index(path, "config.json", fresh())


@reader("index: rows", "rows.bin", lambda: specimens.index_parts(), one_of(any_line))
def _index_rows(path: Path) -> object:
    return specimens.open_index(path, None, fresh())


def _archives() -> list[bytes]:
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("m/a.json", b'{"a": 1}' * 20)
        file.writestr("m/b/c.bin", b"x")
    with tarfile.open(fileobj=tarred, mode="w:gz") as tar:
        for name in ("m/a.json", "m/b/c.bin"):
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))
    return [zipped.getvalue(), tarred.getvalue(), specimens.gunzipped(tarred.getvalue())]


@reader("archives", "a.whl", _archives, specimens.any_archive)
def _archive(path: Path) -> object:
    from dialeval.models.archives import extract_members

    target = fresh() / "deep" / "out"
    outside = target.parent.parent
    try:
        found = extract_members(path, lambda name: True, target, limit_bytes=1 << 16, limit_members=20)
        assert all(target in one.parents for one in found)
        return found
    finally:
        left = {one.name for one in outside.iterdir()} if outside.exists() else set()
        shutil.rmtree(outside, ignore_errors=True)
        assert left <= {"deep"}, left


@reader("answers of a server", "answer.json", specimens.server_answers)
def _server(path: Path) -> object:
    return specimens.hear(path.read_bytes())


@reader("replies of an earlier run", "replies.jsonl", lambda: [lines(_OURS)])
def _replies(path: Path) -> object:
    from dialeval.jobs.responding import _lines

    return list(_lines(path))
