"""Systems by name: what is understood, what is refused, and what each says."""

import gc
import sys
import threading
from pathlib import Path

import pytest

from dialeval.dialogues import Turn, dialogue, formats
from dialeval.dialogues.contexts import Context
from dialeval.errors import DataError, UsageError
from dialeval.systems import Conversation, build
from dialeval.systems.external import Function


def asked(*texts: str, name: str | None = None) -> Context:
    return Context(tuple(Turn("user", text) for text in texts), "assistant", name, len(texts))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nobody", "no system 'nobody'"),
        ("http://", "not an address"),
        ("no_such_module:answer", "No module named"),
        ("json:no_such", "json has no function 'no_such'"),
        ("wizard-random", "say which votes"),
        ("wizard-random:votes=examples,seed=x", "expected a number"),
        ("retrieval:size=3", "no option 'size=3'"),
        ("retrieval:window=0", "window must be at least 1"),
    ],
)
def test_what_cannot_be_a_system_is_refused(spec: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        build(spec)


def test_options_of_an_address_go_with_no_other() -> None:
    with pytest.raises(UsageError, match="temperature goes with an address"):
        build("retrieval", temperature=1.0)
    with pytest.raises(UsageError, match="concurrency goes with an address"):
        build("retrieval", at_once=3)


def test_a_missing_file_of_votes_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"votes\.jsonl: no such file"):
        build(f"wizard-max-voted:votes={tmp_path / 'votes.jsonl'}")


def test_a_function_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_bot_7b.py").write_text(
        "def answer(messages):\n    return messages[-1]['role'] + str(len(messages))\n"
        "def wrong(messages):\n    return None\n"
    )
    monkeypatch.chdir(tmp_path)
    system = build("my_bot_7b:answer", name="mine")
    assert (system.name, str(system.signature)) == ("mine", "function.v1|function:my_bot_7b:answer")
    assert system.reply(asked("a", "b")) == "user2"
    with pytest.raises(DataError, match="returned NoneType, not text"):
        build("my_bot_7b:wrong").reply(asked("a"))


def test_a_function_that_hangs_fails_once_and_the_next_is_asked() -> None:
    released, threads = threading.Event(), []

    def answer(messages: list[dict[str, str]]) -> str:
        threads.append(threading.current_thread())
        if messages[-1]["content"] == "hang":
            released.wait(60)
        if messages[-1]["content"] == "leave":
            sys.exit(3)
        if messages[-1]["content"] == "own":
            raise TimeoutError("of its own")
        return "here"

    system = Function("bot", answer)
    assert [system.reply(asked(text)) for text in ("a", "b")] == ["here", "here"]
    object.__setattr__(system, "timeout", 0.3)  # for this one only: a busy machine may be slow to answer
    with pytest.raises(DataError, match=r"no answer in 0\.3 s"):
        system.reply(asked("hang"))
    object.__setattr__(system, "timeout", 60)
    assert system.reply(asked("c")) == "here"
    with pytest.raises(DataError, match=r"ended itself: SystemExit\(3\)"):
        system.reply(asked("leave"))
    with pytest.raises(TimeoutError, match="of its own"):
        system.reply(asked("own"))
    assert system.reply(asked("d")) == "here"
    first, second = threads[0], threads[-1]
    assert threads == [first] * 3 + [second] * 4
    assert first is not second and first.daemon and second.daemon
    released.set()
    first.join(10)
    assert not first.is_alive(), "what was stuck and came back is gone"
    del system
    gc.collect()  # errors hold on to where they were raised
    second.join(10)
    assert not second.is_alive()


def test_time_outs_go_with_addresses_and_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_bot_7c.py").write_text("def answer(messages):\n    return 'x'\n")
    assert [getattr(build("my_bot_7c:answer", timeout=one), "timeout", 0) for one in (2.5, None)] == [
        2.5,
        60.0,
    ]
    with pytest.raises(UsageError, match="timeout must be above 0"):
        build("my_bot_7c:answer", timeout=0.0)
    with pytest.raises(UsageError, match="timeout goes with an address or a function"):
        build("retrieval", timeout=3.0)


def test_retrieval_selects_by_context_and_never_from_the_same_conversation(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    talks = [
        dialogue([("A", "Where is the station?"), ("B", "Down the road, on the left.")], "road"),
        dialogue([("A", "Do you like jazz?"), ("B", "I love Coltrane.")], "jazz"),
        dialogue([("A", "How do I get to the railway station?"), ("B", "Take bus 7.")], "bus"),
    ]
    formats.write(talks, corpus)
    system = build(f"retrieval:corpus={corpus}")
    assert system.reply(asked("Where is the station?")) == "Down the road, on the left."
    assert system.reply(asked("Where is the station?", name="road")) == "Take bus 7."
    assert system.reply(asked("Where is the station?", name="road@turn-1")) == "Take bus 7."
    assert system.reply(asked("Which jazz music do you listen to?")) == "I love Coltrane."
    with pytest.raises(DataError, match="the context is empty"):
        system.reply(asked("  "))
    formats.write(talks[:1], corpus)
    with pytest.raises(DataError, match="no other dialogue"):
        build(f"retrieval:corpus={corpus}").reply(asked("Where?", name="road"))
    formats.write([], corpus)
    with pytest.raises(DataError, match="no reply to choose from"):
        build(f"retrieval:corpus={corpus}")


def test_in_a_conversation_its_own_replies_are_the_context() -> None:
    seen = []

    def answer(messages: list[dict[str, str]]) -> str:
        seen.append([one["content"] for one in messages])
        if len(seen) == 2:
            raise RuntimeError("lost")
        return f"reply {len(seen)}"

    talk = Conversation(Function("bot", answer))
    assert talk.say("one").text == "reply 1"
    assert talk.say("two").meta["note"] == "failed: RuntimeError: lost"
    assert talk.say("three").text == "reply 3"
    assert seen == [["one"], ["one", "reply 1", "two"], ["one", "reply 1", "two", "three"]]
    kept = talk.dialogue("t1")
    assert [turn.speaker for turn in kept.turns] == ["user", "assistant"] * 3
    assert (kept.system, kept.meta["setting"]) == ("bot", "dynamic")


def test_nobody_talks_to_wizards() -> None:
    with pytest.raises(UsageError, match="fixed contexts only"):
        Conversation(build("wizard-max-voted:votes=examples"))


def test_wizards_and_a_selecting_system_have_one_pool_whoever_speaks(tmp_path: Path) -> None:
    """Where nobody is called assistant, both take what one speaker said."""
    from dialeval.annotation import create, read_scheme
    from dialeval.dialogues.votes import read_candidates

    said = [("A", "Where is it?"), ("B", "Down the road."), ("A", "Is it far?"), ("B", "Not at all.")]
    path = tmp_path / "pool.jsonl"
    formats.write([dialogue(said, "d1")], path)
    pool = read_candidates(path, "B")
    study = create(
        tmp_path / "wizards", read_scheme("wizard"), [dialogue(said, "d1")], ["ann"], candidates=pool
    )
    system = build(f"retrieval:corpus={path},candidates={path},speaker=B")
    assert set(study.candidates) == {"Down the road.", "Not at all."}
    assert system.reply(Context((Turn("A", "Is it far?"),))) in study.candidates
    assert "|speaker:B" in str(system.signature)
    study.close()
