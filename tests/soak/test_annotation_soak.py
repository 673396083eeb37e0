"""Many raters at once, fifty kills, a full disk: every answer that was acknowledged is there (R20)."""

import http.client
import json
import random
import resource
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from annotation_server import Server, make_study, talks

from dialeval.annotation import read_scheme
from dialeval.scores import Scores

pytestmark = pytest.mark.soak
RATERS, ANSWERS = 20, 500
KILLS, CLIENTS = 50, 8


def study_for(folder: Path, raters: int, items: int) -> Path:
    scheme = msgspec.structs.replace(read_scheme("turn-quality"), raters_per_item=raters)
    return make_study(folder, scheme, talks(items // 2), [f"r{number}" for number in range(raters)])


def share(values: list[float], part: float) -> float:
    return sorted(values)[int(len(values) * part)]


def test_twenty_raters_at_once(tmp_path: Path) -> None:
    times: dict[str, list[float]] = {"GET": [], "POST": []}
    errors: list[str] = []
    with Server(study_for(tmp_path / "study", RATERS, ANSWERS)) as server:

        def rate(name: str) -> None:
            client = server.client(name)
            place, page = client.item()
            for number in range(ANSWERS):
                started = time.perf_counter()
                answer = client.answer(place, page, q0=str(number % 3))
                posted = time.perf_counter()
                times["POST"].append(posted - started)
                if answer.status != 303:
                    errors.append(f"{name} {number} {answer.status}")
                    return
                place = answer.place
                page = client.get(place)
                times["GET"].append(time.perf_counter() - posted)
                if page.status != 200:
                    errors.append(f"{name} {number} {page.status}")
                    return

        started = time.perf_counter()
        threads = [threading.Thread(target=rate, args=(f"r{number}",)) for number in range(RATERS)]
        for one in threads:
            one.start()
        exports = []
        while any(one.is_alive() for one in threads):  # the coordinator looks at it meanwhile
            exports.append(server.client("coordinator").get("/study/export/scores.parquet").body)
            time.sleep(5)
        for one in threads:
            one.join()
        seconds = time.perf_counter() - started
        exports.append(server.client("coordinator").get("/study/export/scores.parquet").body)
    assert errors == []
    for method, found in times.items():
        figures = ", ".join(f"p{part} {1000 * share(found, part / 100):.0f} ms" for part in (50, 95, 99))
        print(f"\n{method}: {len(found)} requests, {figures}, longest {1000 * max(found):.0f} ms")
    print(f"{RATERS * ANSWERS} answers in {seconds:.1f} s, {RATERS * ANSWERS / seconds:.0f} a second")
    counts = []
    for number, body in enumerate(exports):
        (tmp_path / f"{number}.parquet").write_bytes(body)
        counts.append(len(Scores.read(tmp_path / f"{number}.parquet")))
    assert counts == sorted(counts) and counts[-1] == RATERS * ANSWERS
    assert share(times["POST"], 0.95) < 2 and share(times["GET"], 0.95) < 2


class Poster(threading.Thread):
    """Somebody who answers and answers, and remembers what was acknowledged."""

    def __init__(self, server: Server, name: str) -> None:
        super().__init__()
        self.server, self.name_, self.kept, self.sent = server, name, set[str](), 0

    def run(self) -> None:
        try:
            client = self.server.client(self.name_)
            place, page = client.item()
            while page.status == 200 and "ticket" in page.text:
                ticket = page.hidden("ticket")
                self.sent += 1
                answer = client.answer(place, page, q0=str(random.randrange(3)))
                if answer.status == 303:
                    self.kept.add(ticket)
                place, page = client.follow(answer)
        except (OSError, http.client.HTTPException):
            pass  # the server was killed


def test_fifty_kills(tmp_path: Path) -> None:
    folder = study_for(tmp_path / "study", CLIENTS, 4000)
    chance, kept, starts, sent = random.Random(0), set[str](), [], 0
    for kill in range(KILLS):
        server = Server(folder)
        starts.append(server.seconds)
        posters = [Poster(server, f"r{number}") for number in range(CLIENTS)]
        for one in posters:
            one.start()
        if kill % 5:  # else somewhere in the beginning
            while not any(one.kept for one in posters):
                time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.8))
        server.process.kill()
        for one in posters:
            one.join()
            kept |= one.kept
            sent += one.sent
        server.kill()
    base = sqlite3.connect(folder / "study.db")
    there = {row[0] for row in base.execute("SELECT ticket FROM log WHERE action = 'done'")}
    (whole,) = base.execute("PRAGMA integrity_check").fetchone()
    (rows,) = base.execute("SELECT count(*) FROM answers").fetchone()
    (done,) = base.execute("SELECT count(*) FROM seats WHERE state = 'done'").fetchone()
    base.close()
    counts = f"{len(kept)} acknowledged of {sent} sent, {len(there)} in the study, {len(kept - there)} lost"
    print(f"\n{KILLS} kills: {counts}")
    print(f"restart: median {share(starts, 0.5):.2f} s, longest {max(starts):.2f} s")
    assert whole == "ok"
    assert kept <= there
    assert rows == done == len(there)
    assert len(kept) > 500
    assert share(starts, 0.5) < 2


def test_a_full_disk_says_so_and_loses_nothing(tmp_path: Path) -> None:
    """The server may write no file beyond a size: to SQLite that is a disk without room."""
    scheme = """
name = "long"
title = "Long"
unit = "turn"
instructions = "Write."
[[questions]]
name = "words"
type = "text"
text = "Say."
"""
    folder = make_study(tmp_path / "study", scheme, talks(200), raters=["ann", "bob", "cem"])
    with Server(folder) as server:
        clients = {name: server.client(name) for name in ("ann", "bob", "cem")}
        kept: dict[str, list[str]] = {name: [] for name in clients}
        for name, client in clients.items():
            text = f"{name} before"
            assert client.answer_next(q0=text).status == 303
            kept[name].append(text)
        size = max(path.stat().st_size for path in folder.iterdir())
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + 60_000, limits[1]))
        refused = 0
        for number in range(12):
            for name, client in clients.items():
                text = f"{name} {number} " + "x" * 9000
                place, page = client.item()
                answer = client.answer(place, page, q0=text)
                assert answer.status in (303, 507), answer.text[:200]
                if answer.status == 303:
                    kept[name].append(text)
                else:
                    refused += 1
                    assert (
                        "Not saved" in answer.text and text in answer.text
                    )  # what was written is still there
                    assert client.item()[0] == place
        assert refused
        assert server.client("coordinator").get("/study/export/scores.csv").status == 200
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)
        for name, client in clients.items():
            text = f"{name} after"
            assert client.answer_next(q0=text).status == 303
            kept[name].append(text)
        rows = [
            json.loads(line)
            for line in server.client("coordinator").get("/study/export/scores.jsonl").text.splitlines()
        ]
    found: dict[str, set[str]] = {name: set() for name in clients}
    for row in rows:
        found[row["source"].removeprefix("human:")].add(row["note"])
    assert found == {name: set(texts) for name, texts in kept.items()}
    print(f"\ndisk full: {refused} times 507, {len(rows)} acknowledged answers, all there")


def test_double_submits_and_exports_while_others_write(tmp_path: Path) -> None:
    folder = study_for(tmp_path / "study", 6, 60)
    snapshots: list[list[dict[str, Any]]] = []
    with Server(folder) as server:

        def rate(name: str) -> None:
            client, twin = server.client(name), server.client(name)
            while "ticket" in (found := client.item())[1].text:
                place, page = found
                both = [
                    threading.Thread(target=one.answer, args=(place, page), kwargs={"q0": "1"})
                    for one in (client, twin)
                ]
                for one in both:
                    one.start()
                for one in both:
                    one.join()

        threads = [threading.Thread(target=rate, args=(f"r{number}",)) for number in range(6)]
        for one in threads:
            one.start()
        head = server.client("coordinator")
        while any(one.is_alive() for one in threads):
            text = head.get("/study/export/scores.jsonl").text
            snapshots.append([json.loads(line) for line in text.splitlines()])
            assert head.get("/study").status == 200
        text = head.get("/study/export/scores.jsonl").text
        snapshots.append([json.loads(line) for line in text.splitlines()])
    base = sqlite3.connect(folder / "study.db")
    orders: dict[str, list[tuple[str, int]]] = {}
    query = (
        "SELECT s.rater, i.places FROM seats AS s JOIN items AS i ON i.number = s.item ORDER BY rater, place"
    )
    for rater, places in base.execute(query):
        number, turn, _ = json.loads(places)[0]
        orders.setdefault(rater, []).append((f"secret-id-{number}", turn))
    (logged,) = base.execute("SELECT count(*) FROM log").fetchone()
    base.close()
    assert logged == len(snapshots[-1]) == 6 * 60
    for rows in snapshots:  # everybody answers in order, so one moment is a beginning of each order
        for rater, order in orders.items():
            seen = {(row["dialogue_id"], row["turn"]) for row in rows if row["source"] == f"human:{rater}"}
            assert seen == set(order[: len(seen)])
    print(f"\n{len(snapshots)} exports while 6 raters sent everything twice: all consistent, no row twice")
