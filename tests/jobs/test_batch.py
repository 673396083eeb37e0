"""A batch: planned, worked off by processes, broken, resumed; and what it refuses to mix."""

import gzip
import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from batch_cases import command, package, parts, run, talks

from dialeval.dialogues.formats import read, write
from dialeval.errors import DataError, UsageError
from dialeval.jobs import runs
from dialeval.jobs.batch.batch import prepare, score_one
from dialeval.jobs.batch.plan import read_shard
from dialeval.jobs.batch.shard_scores import score_shard
from dialeval.jobs.scoring import score_to
from dialeval.scores import Scores

PER_SHARD = 40  # turns: ten dialogues


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write(talks(50), tmp_path / "logs.jsonl")
    return tmp_path / "logs.jsonl"


def plan(inputs: Any, out: Path, metrics: tuple[str, ...] = ("length", "turns"), **more: Any) -> Any:
    given = [str(one) for one in (inputs if isinstance(inputs, list) else [inputs])]
    with prepare(
        given, metrics, str(out), turns_per_shard=more.pop("turns_per_shard", PER_SHARD), **more
    ) as it:
        return it


def here(inputs: Any, out: Path, metrics: tuple[str, ...] = ("length", "turns"), **more: Any) -> Any:
    """Plan and score everything in this process."""
    planned = plan(inputs, out, metrics, **more)
    for shard in planned.plan.shards:
        score_one(str(out), shard.number)
    return plan(inputs, out, metrics, **more)


def test_processes_write_what_this_process_writes(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(logs, "-m", "length", "-m", "turns", "-o", out, "--turns-per-shard", PER_SHARD, "--workers", 2)
    assert "200 turns in 5 shards" in done.stderr
    assert (out / "_SUCCESS").is_file()
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["dialogues"], summary["turns"], summary["shards"], summary["unscored"]) == (
        50,
        200,
        5,
        [],
    )
    assert summary["speed"]["last_run"]["turns"] == 200
    assert {row["source"]: row["mean"] for row in summary["scores"]} == {"length": 3.0, "turns": 4.0}
    here(logs, tmp_path / "other")
    assert parts(out) == parts(tmp_path / "other")
    assert len(parts(out)) == 5
    assert not list(out.glob(".models*"))
    again = run(logs, "-m", "length", "-m", "turns", "-o", out, "--turns-per-shard", PER_SHARD, "--json")
    assert json.loads(again.stdout)["done"] == 5
    assert "5 of them done before" in again.stderr
    assert len((out / "log.jsonl").read_text().splitlines()) == 10  # nothing was begun again


def test_what_is_written_is_a_table_for_everybody(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    planned = here(logs, out)
    planned.run()
    table = ds.dataset(out / "scores").to_table()
    scores = Scores.read(out / "scores")
    assert table.num_rows == len(scores) == 150
    assert [str(one) for one in scores.signatures.values()] == list(planned.plan.signatures.values())
    assert runs.Run(out).scores() == scores
    assert [one.id for one in runs.Run(out).dialogues()] == [one.id for one in talks(50)]
    assert len(runs.load_scores([out])) == 150


def test_an_unfinished_batch_is_no_run(logs: Path, tmp_path: Path) -> None:
    plan(logs, tmp_path / "out")
    score_one(str(tmp_path / "out"), 0)
    with pytest.raises(DataError, match="not finished"):
        runs.Run(tmp_path / "out")


@pytest.mark.parametrize("harm", ["cut", "flipped", "gone", "no note", "broken note"])
def test_a_broken_part_is_not_read_and_done_again(harm: str, logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    here(logs, out).run()
    whole = parts(out)
    part, note = out / "scores" / "part-00002.parquet", out / "done" / "part-00002.json"
    data = part.read_bytes()
    if harm == "cut":
        part.write_bytes(data[:-20])
    elif harm == "flipped":
        part.write_bytes(data[:30] + bytes([data[30] ^ 1]) + data[31:])
    elif harm == "gone":
        part.unlink()
    elif harm == "no note":
        note.unlink()
    else:
        note.write_text("{")
    with pytest.raises(DataError, match=r"part-00002\.(parquet|json): .*give the same dialeval batch"):
        runs.load_scores([out])  # nor as a run
    planned = plan(logs, out)
    assert planned.missing == [2]
    assert planned.turns_left == PER_SHARD
    score_one(str(out), 2)
    assert plan(logs, out).missing == []
    assert parts(out) == whole


def test_what_has_changed_is_named(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan(logs, out)
    with pytest.raises(DataError, match=r"metric length: planned length.v1.*now length.v1.speaker:user"):
        plan(logs, out, ("length:speaker=user", "turns"))
    with pytest.raises(DataError, match=r"metric turns: planned .*, now without it"):
        plan(logs, out, ("length",))
    with pytest.raises(DataError, match="turns per shard: planned 40, now 80"):
        plan(logs, out, turns_per_shard=80)
    with pytest.raises(DataError, match="--format"):
        plan(logs, out, format="messages")
    write(talks(3), tmp_path / "more.jsonl")
    with pytest.raises(DataError, match=r"input .*more.jsonl is new"):
        plan([logs, tmp_path / "more.jsonl"], out)
    with pytest.raises(DataError, match=r"more.jsonl is new; input .*logs.jsonl is no longer given"):
        plan(tmp_path / "more.jsonl", out)
    logs.write_text(logs.read_text().replace("fine 7 ", "good 7 "))
    with pytest.raises(DataError, match=r"input .*logs.jsonl has changed"):
        plan(logs, out)
    assert score_one(str(out), 4)["dialogues"] == 10  # what has not changed may still be scored
    with pytest.raises(DataError, match=r"logs.jsonl: shard 0 is no longer what was planned"):
        score_one(str(out), 0)
    assert not (out / "scores" / "part-00000.parquet").exists()


def test_a_folder_that_holds_something_else_is_refused(logs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds something else"):
        plan(logs, tmp_path)
    with pytest.raises(UsageError, match="is a file"):
        plan(logs, logs)
    with pytest.raises(UsageError, match="no plan in"):
        score_shard(str(tmp_path / "new"), 0)
    plan(logs, tmp_path / "out")
    with pytest.raises(UsageError, match="no shard 5: the plan has 0 to 4"):
        score_shard(str(tmp_path / "out"), 5)
    held = prepare([str(logs)], ["turns"], str(tmp_path / "held"))
    with held, pytest.raises(DataError, match="somebody else is writing"):
        plan(logs, tmp_path / "held", ("turns",))


# --- dialogues that cannot be scored ------------------------------------------------------------------------


def test_a_poisoned_dialogue_is_a_noted_row(tmp_path: Path) -> None:
    environment = package(tmp_path / "package")
    write(talks(50, {7: "poison", 8: "poison", 33: "poison"}), tmp_path / "logs.jsonl")
    common = ("-m", "brittle", "-m", "length", "--turns-per-shard", PER_SHARD, "--workers", 1)
    done = run(tmp_path / "logs.jsonl", *common, "-o", tmp_path / "out", env=environment)
    scores = Scores.read(tmp_path / "out" / "scores")
    bad = [row for row in scores if row.value is None]
    assert [(row.dialogue_id, row.turn, row.source, row.dimension) for row in bad] == [
        (f"d{number:04d}", None, "brittle", "turns") for number in (7, 8, 33)
    ]
    assert bad[0].note == "ValueError: cannot take d0007: <object object at 0x…>"
    assert len(scores.where(source="brittle")) == 50 and len(scores.where(source="length")) == 100
    assert "brittle: 1 not scored: ValueError: cannot take d0007" in done.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [row["n"] for row in summary["unscored"]] == [1, 1, 1]


def test_a_metric_that_always_fails_is_no_noted_row(tmp_path: Path) -> None:
    environment = package(tmp_path / "package")
    write(talks(10, dict.fromkeys(range(10), "poison")), tmp_path / "logs.jsonl")
    done = run(tmp_path / "logs.jsonl", "-m", "brittle", "-o", tmp_path / "out", env=environment, code=1)
    assert "shard 0 failed three times: brittle fails on every dialogue: ValueError" in done.stderr
    assert not (tmp_path / "out" / "_SUCCESS").exists()


def test_a_killed_worker_is_replaced_and_its_shard_done_again(tmp_path: Path) -> None:
    environment, flag = package(tmp_path / "package"), tmp_path / "flag"
    write(talks(50, {25: "deadly"}), tmp_path / "logs.jsonl")
    words = ("-m", f"brittle:flag={flag}", "--turns-per-shard", PER_SHARD, "--workers", 2)
    run(tmp_path / "logs.jsonl", *words, "-o", tmp_path / "out", env=environment)
    assert flag.exists()
    log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    ((shard, why),) = [(row["shard"], row["why"]) for row in log if row.get("done") is False]
    assert (shard, why) == (2, "its worker was ended by SIGKILL")
    assert len(Scores.read(tmp_path / "out" / "scores")) == 50


def test_a_shard_that_fails_three_times_is_named_and_the_others_finish(tmp_path: Path) -> None:
    environment = package(tmp_path / "package")
    write(talks(50, {25: "deadly"}), tmp_path / "logs.jsonl")
    words = (tmp_path / "logs.jsonl", "-m", "brittle", "--turns-per-shard", PER_SHARD, "-o", tmp_path / "out")
    done = run(*words, "--workers", 1, env=environment, code=1)
    assert "shard 2 failed three times: its worker was ended by SIGKILL" in done.stderr
    assert "4 of 5 shards are done" in done.stderr
    assert sorted(parts(tmp_path / "out")) == [f"part-0000{number}.parquet" for number in (0, 1, 3, 4)]
    assert not (tmp_path / "out" / "_SUCCESS").exists()


def test_no_room_is_said_and_resumed(tmp_path: Path) -> None:
    """No process may write a file beyond a size: as good as a full disk."""
    write(talks(300), tmp_path / "logs.jsonl")
    words = (tmp_path / "logs.jsonl", "-m", "length", "-o", tmp_path / "out", "--turns-per-shard", 400)
    planned: Any = (tmp_path / "logs.jsonl", tmp_path / "out", ("length",))
    plan(*planned, turns_per_shard=400)
    limited = ["bash", "-c", 'ulimit -f 2; exec "$@"', "bash", *command(*words)]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "File too large; nothing was changed" in done.stderr
    assert "0 of 3 shards are done; repeat the command to resume" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file() and "part-" in path.name]
    here(*planned, turns_per_shard=400).run()
    assert (tmp_path / "out" / "_SUCCESS").is_file()


def test_ctrl_c_stops_cleanly(tmp_path: Path) -> None:
    environment, out = package(tmp_path / "package"), tmp_path / "out"
    write(talks(50), tmp_path / "logs.jsonl")
    words = (tmp_path / "logs.jsonl", "-m", "brittle:seconds=0.1", "--turns-per-shard", PER_SHARD, "-o", out)
    with subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True, env=environment) as driver:
        until = time.monotonic() + 60
        while not list(out.glob("done/*.json")) and time.monotonic() < until:
            time.sleep(0.05)
        workers = re.findall(r'"begun": "(\d+)"', (out / "log.jsonl").read_text())
        driver.send_signal(signal.SIGINT)
        _, said = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "finished shards are kept" in said and "Traceback" not in said
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    assert not list(out.rglob(".*.part")) and not (out / "_SUCCESS").exists()
    done = run(*words, env=environment)
    assert "of them done before" in done.stderr


# --- inputs -------------------------------------------------------------------------------------------------


def without_ids(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "id": ""}) + "\n" for line in lines))


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet", "csv", "json"])
def test_every_format_comes_back_shard_by_shard(ending: str, tmp_path: Path) -> None:
    made, path = talks(50), tmp_path / f"logs.{ending}"
    if ending in ("jsonl", "parquet", "csv"):
        write(made, path)
    else:
        write(made, tmp_path / "plain.jsonl")
        text = (tmp_path / "plain.jsonl").read_text()
        if ending == "json":
            path.write_text("[" + ",\n".join(text.splitlines()) + "]")
        else:
            path.write_bytes(gzip.compress(("\ufeff" + text.replace("\n", "\n\n")).encode()))
    planned = plan(path, tmp_path / "out")
    assert [shard.dialogues for shard in planned.plan.shards] == [10] * 5
    found = [list(read_shard(planned.plan, number)) for number in (3, 0, 1, 4, 2)]
    assert sorted((one for some in found for one in some), key=lambda one: one.id) == made


def test_parquet_row_groups_before_a_shard_are_not_read(tmp_path: Path) -> None:
    """The bytes of the first group may be anything, once the plan is made; but its hash is looked at last."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"id": f"d{n}", "messages": [{"role": "user", "content": f"hi {n}"}] * 4} for n in range(50)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "logs.parquet", row_group_size=15)
    planned = plan(tmp_path / "logs.parquet", tmp_path / "out")
    data = bytearray((tmp_path / "logs.parquet").read_bytes())
    data[4:60] = bytes(56)
    (tmp_path / "logs.parquet").write_bytes(data)
    assert [one.id for one in read_shard(planned.plan, 3)] == [f"d{n}" for n in range(30, 40)]
    with pytest.raises(DataError):
        list(read_shard(planned.plan, 0))


def test_small_files_share_a_shard(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    for number, some in enumerate(talks(9)):
        write([some], folder / f"{number % 3}" / f"{number}.jsonl")
    (folder / "_notes.jsonl").write_text("none of it\n")
    (folder / "README.md").write_text("nor this\n")
    planned = plan(folder, folder / "out", turns_per_shard=16)
    assert [len(shard.stretches) for shard in planned.plan.shards] == [4, 4, 1]
    assert len([one for n in range(3) for one in read_shard(planned.plan, n)]) == 9
    assert here(folder, folder / "out", turns_per_shard=16).missing == []  # what it writes is no input
    assert len(plan(folder / "[0-9]" / "*.jsonl", tmp_path / "glob").plan.inputs) == 9
    with pytest.raises(DataError, match="no dialogues in"):
        plan(tmp_path / "*.jsonl", tmp_path / "none")
    with pytest.raises(DataError, match="no such file or folder"):
        plan(tmp_path / "nothing", tmp_path / "none")


def test_an_id_that_stands_twice_names_both_places(tmp_path: Path) -> None:
    write(talks(5), tmp_path / "a.jsonl")
    write(talks(3)[2:], tmp_path / "b.jsonl")
    with pytest.raises(DataError, match=r"b.jsonl:1: id: the id 'd0002' was already used in .*a.jsonl:3"):
        plan([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out")


def test_ids_that_are_made_stay_apart_over_files_and_shards(tmp_path: Path) -> None:
    """As `dialeval score` names them in one file that holds all."""
    from dialeval.dialogues.formats import read

    write(talks(20), tmp_path / "a.jsonl")
    without_ids(tmp_path / "a.jsonl")
    shutil.copy(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    twice = (tmp_path / "a.jsonl").read_text() * 3
    (tmp_path / "c.jsonl").write_text(twice)
    (tmp_path / "all.jsonl").write_text(2 * (tmp_path / "a.jsonl").read_text() + twice)
    planned = plan([tmp_path / f"{name}.jsonl" for name in "abc"], tmp_path / "out")
    found = [one.id for shard in planned.plan.shards for one in read_shard(planned.plan, shard.number)]
    assert found == [one.id for one in read(tmp_path / "all.jsonl")]
    assert len(set(found)) == 100 and found[-1].endswith("-5")


def test_encoders_give_the_same_bytes_whatever_was_scored_before(tmp_path: Path) -> None:
    from dialeval.jobs.demo import example_dialogues

    write(example_dialogues()[:12], tmp_path / "logs.jsonl")
    metrics = ("turn-quality",)
    for name, order in (("forth", [0, 1, 2]), ("back", [2, 1, 0])):
        planned = plan(tmp_path / "logs.jsonl", tmp_path / name, metrics, turns_per_shard=50)
        assert len(planned.plan.shards) == 3
        for number in order:
            score_one(str(tmp_path / name), number)
    words = (tmp_path / "logs.jsonl", "-m", *metrics, "-o", tmp_path / "out", "--turns-per-shard", 50)
    run(*words, "--workers", 2)
    assert parts(tmp_path / "forth") == parts(tmp_path / "back") == parts(tmp_path / "out")


def test_what_users_said_in_a_log_is_rated_in_a_batch_as_in_score(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "thumbs": "down"}]
    logs = tmp_path / "logs.jsonl"
    logs.write_text(
        "".join(json.dumps({"id": f"d{n}", "messages": said, "rating": n}) + "\n" for n in range(30))
    )
    out = tmp_path / "out"
    here(logs, out, ("length",)).run()
    rows = sorted(runs.load_scores([out]), key=repr)
    rated = [row for row in rows if row.source == "human:user"]
    assert [(row.turn, row.value) for row in rated if row.dimension == "thumbs"] == [(1, 0.0)] * 30
    assert sorted(row.value for row in rated if row.dimension == "rating") == list(range(30))  # type: ignore[type-var]
    score_to(read(logs), ["length"], tmp_path / "alone.parquet")
    assert rows == sorted(Scores.read(tmp_path / "alone.parquet"), key=repr)
