"""Static contexts: what is asked, how a stopped run goes on, and what becomes of failures."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from serving import Server

from dialeval import files
from dialeval.dialogues import Dialogue, dialogue, formats, scored_turns
from dialeval.dialogues.contexts import Context, contexts, conversation_of, failure_of, place_of
from dialeval.dialogues.formats.writing import to_json
from dialeval.errors import DataError, UsageError
from dialeval.jobs.responding import respond_to
from dialeval.metrics import build as metric
from dialeval.systems import build
from dialeval.systems.external import Function


def talks(count: int = 3) -> list[Dialogue]:
    return [
        dialogue(
            [("user", f"Hi {n}"), ("assistant", "Hello"), ("user", f"So {n}?"), ("assistant", "Well.")],
            f"d{n}",
        )
        for n in range(count)
    ]


def counting(fails: set[str] = frozenset()) -> tuple[Function, list[str]]:  # type: ignore[assignment]
    asked: list[str] = []

    def answer(messages: list[dict[str, str]]) -> str:
        asked.append(messages[-1]["content"])
        if asked[-1] in fails:
            raise ValueError("cannot")
        return f"reply to {messages[-1]['content']}"

    return Function("bot", answer), asked


def test_the_context_is_reset_each_time(tmp_path: Path) -> None:
    seen = []

    def answer(messages: list[dict[str, str]]) -> str:
        seen.append([(one["role"], one["content"]) for one in messages])
        return "mine"

    done = respond_to(talks(1), Function("bot", answer), tmp_path / "r.jsonl")
    assert (done.contexts, done.answered, done.failed) == (2, 2, 0)
    assert seen == [[("user", "Hi 0")], [("user", "Hi 0"), ("assistant", "Hello"), ("user", "So 0?")]]
    made = list(formats.read(tmp_path / "r.jsonl"))
    assert [one.id for one in made] == ["d0@turn-1", "d0@turn-3"]
    assert [scored_turns(one) for one in made] == [[1], [3]], "only the reply is scored"
    assert [place_of(one, 3) for one in made] == [("d0", 1), ("d0", 3)]
    assert {one.system for one in made} == {"bot"}
    assert {conversation_of(one.id) for one in made} == {"d0"}
    rows = list(metric("length").score(made))
    assert [(row.dialogue_id, row.turn, row.value) for row in rows] == [
        ("d0@turn-1", 1, 1.0),
        ("d0@turn-3", 3, 1.0),
    ]


def test_replies_can_be_answered_by_another_system(tmp_path: Path) -> None:
    respond_to(talks(2), counting()[0], tmp_path / "r.jsonl")
    first = [(one.name, one.turns) for one in contexts(talks(2))]
    assert [(one.name, one.turns) for one in contexts(formats.read(tmp_path / "r.jsonl"))] == first


def test_two_people_and_a_chosen_speaker() -> None:
    talk = dialogue([("A", "Hi"), ("B", "Hi"), ("A", "So?"), ("B", "Well.")], "d")
    assert [one.turn for one in contexts([talk])] == [1, 2, 3]
    assert [(one.turn, one.speaker) for one in contexts([talk], "B")] == [(1, "B"), (3, "B")]


def test_the_same_command_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    system, asked = counting()

    def stop(messages: list[dict[str, str]]) -> str:
        if len(asked) == 3:
            raise KeyboardInterrupt
        return system.answer(messages)

    with pytest.raises(KeyboardInterrupt):
        respond_to(talks(), Function("bot", stop), out)
    assert not out.exists()
    part = Path(f"{out}.part")
    part.write_bytes(part.read_bytes() + b'{"id": "d1@turn-3", "mess')  # a pulled plug
    done = respond_to(talks(), system, out)
    assert (done.earlier, done.contexts) == (3, 6)
    assert sorted(asked) == sorted(
        f"{word} {n}{mark}" for n in range(3) for word, mark in (("Hi", ""), ("So", "?"))
    )
    assert not part.exists()
    fresh, _ = counting()
    respond_to(talks(), fresh, tmp_path / "whole.jsonl")
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert respond_to(talks(), system, out).earlier == 6
    assert len(asked) == 6, "nothing is asked twice"


def test_failures_are_kept_counted_and_asked_again_only_when_wanted(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    done = respond_to(talks(), counting({"So 1?"})[0], out)
    assert (done.answered, done.failed, done.failures) == (5, 1, {"ValueError: cannot": 1})
    failed = [one for one in formats.read(out) if failure_of(one)]
    assert [(one.id, one.turns[-1].text, failure_of(one)) for one in failed] == [
        ("d1@turn-3", "", "ValueError: cannot")
    ]
    system, asked = counting()
    assert respond_to(talks(), system, out).failed == 1
    assert asked == []
    assert respond_to(talks(), system, out, retry=True).failed == 0
    assert asked == ["So 1?"]
    assert [one.id for one in formats.read(out)] == [one.name for one in contexts(talks())]


def test_a_retry_that_was_stopped_is_not_forgotten(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    respond_to(talks(), counting({"So 1?", "So 2?"})[0], out)
    system, asked = counting()

    def stop(messages: list[dict[str, str]]) -> str:
        if len(asked) == 1:
            raise KeyboardInterrupt
        return system.answer(messages)

    with pytest.raises(KeyboardInterrupt):
        respond_to(talks(), Function("bot", stop), out, retry=True)
    assert sum(bool(failure_of(one)) for one in formats.read(out)) == 2, "the old output stands"
    assert respond_to(talks(), system, out).failed == 1
    assert sum(bool(failure_of(one)) for one in formats.read(out)) == 1
    assert not Path(f"{out}.part").exists()


def test_two_at_once_are_not_mixed(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    with files.appending(f"{out}.part"), pytest.raises(DataError, match="somebody else is writing"):
        respond_to(talks(), counting()[0], out)
    assert respond_to(talks(), counting()[0], out).answered == 6


def test_a_function_that_hangs_is_one_failure_and_the_run_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_text("".join(f"{to_json(one).decode()}\n" for one in talks(2)))
    (tmp_path / "stuck_bot.py").write_text(
        "import time\n"
        "def answer(messages):\n"
        "    if messages[-1]['content'] == 'So 0?':\n"
        "        time.sleep(3600)\n"
        "    return 'mine'\n"
    )
    command = [sys.executable, "-c", "from dialeval.cli import main; main()", "respond", "chats.jsonl"]
    command += ["--system", "stuck_bot:answer", "--timeout", "2", "-o", "r.jsonl", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=True)
    said = json.loads(done.stdout)
    assert (said["answered"], said["failures"]) == (3, {"no answer in 2 s": 1})
    texts = {one.id: one.turns[-1].text for one in formats.read(tmp_path / "r.jsonl")}
    assert texts == {"d0@turn-1": "mine", "d0@turn-3": "", "d1@turn-1": "mine", "d1@turn-3": "mine"}


def test_too_many_failures_in_a_row_end_it(tmp_path: Path) -> None:
    system, asked = counting(
        {f"{word} {n}{mark}" for n in range(30) for word, mark in (("Hi", ""), ("So", "?"))}
    )
    with pytest.raises(DataError, match="failed 5 times in a row, the last time: ValueError: cannot"):
        respond_to(talks(30), system, tmp_path / "r.jsonl", give_up=5)
    assert len(asked) < 12
    good, asked = counting()
    assert respond_to(talks(30), good, tmp_path / "r.jsonl", retry=True).failed == 0
    assert len(asked) == 60


def test_what_is_of_another_run_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    respond_to(talks(), counting()[0], out)
    with pytest.raises(DataError, match=r"r.jsonl: holds replies of another run .*--overwrite"):
        respond_to(talks(), Function("other", len), out)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="another run"):
        respond_to(talks(2), counting()[0], out)
    done = respond_to(talks(2), counting()[0], out, overwrite=True)
    assert (done.contexts, done.earlier) == (4, 0)
    with pytest.raises(UsageError, match=r"must end in \.jsonl"):
        respond_to(talks(), counting()[0], tmp_path / "r.csv")


def test_an_endpoint_answers_a_few_at_a_time(server: Server, tmp_path: Path) -> None:
    system = build(server.at("brief"), name="remote", at_once=3, tries=1, instructions="Be kind.")
    done = respond_to(talks(10), system, tmp_path / "r.jsonl")
    assert (done.answered, done.failed) == (20, 0)
    assert 1 < server.state()["most"] <= 3
    replies = {one.id: one.turns[-1].text for one in formats.read(tmp_path / "r.jsonl")}
    assert replies["d7@turn-3"] == "4 system So 7?"
    assert list(replies) == [one.name for one in contexts(talks(10))], "in the order of the input"


def test_a_killed_run_goes_on(server: Server, tmp_path: Path) -> None:
    source, out = tmp_path / "c.jsonl", tmp_path / "r.jsonl"
    formats.write(talks(20), source)
    words = [sys.executable, "-c", "from dialeval.cli import main; main()", "respond", str(source)]
    words += [
        "--system",
        server.at("brief"),
        "--name",
        "remote",
        "--concurrency",
        "2",
        "-o",
        str(out),
        "--json",
    ]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    part, until = Path(f"{out}.part"), time.monotonic() + 60
    while time.monotonic() < until and not (part.exists() and part.read_bytes().count(b"\n") >= 5):
        time.sleep(0.02)
    process.kill()
    process.communicate()
    kept = part.read_bytes().count(b"\n")
    assert 5 <= kept < 40
    done = subprocess.run(words, check=True, capture_output=True)
    said = json.loads(done.stdout)
    assert said["earlier"] >= kept - 1
    assert (said["contexts"], said["answered"], said["failed"]) == (40, 40, 0)
    assert [one.id for one in formats.read(out)] == [one.name for one in contexts(talks(20))]


def test_wizards_are_asked_only_where_they_voted(tmp_path: Path) -> None:
    votes = tmp_path / "votes.jsonl"
    votes.write_text(
        "".join(
            json.dumps({"dialogue_id": "d1", "turn": 3, "rater": rater, "utterance": text}) + "\n"
            for rater, text in (("a", "Yes."), ("b", "No."), ("c", "No."))
        )
    )
    system = build(f"wizard-max-voted:votes={votes}")
    done = respond_to(talks(), system, tmp_path / "r.jsonl")
    assert (done.contexts, done.left_out) == (1, 5)
    assert [one.turns[-1].text for one in formats.read(tmp_path / "r.jsonl")] == ["No."]
    drawn = {
        build(f"wizard-random:votes={votes},seed={seed}").reply(Context((), "assistant", "d1", 3))
        for seed in range(20)
    }
    assert drawn == {"Yes.", "No."}
