"""Conversations with a system over HTTP: kept, rated, safe, and connected to one address only."""

import json
from pathlib import Path

import pytest
from annotation_server import together
from chatting import Client, chatting
from serving import Server

from dialeval.annotation.chat_folder import ChatFolder
from dialeval.dialogues import formats
from dialeval.errors import BusyError, DataError, UsageError
from dialeval.scores import Scores
from dialeval.studies import study

pytest.importorskip("uvicorn")


def test_a_conversation_is_held_and_rated(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "talks"
    with chatting(folder, server.at("echo")) as links:
        ann = Client(links["ann"])
        assert "Say the first words" in ann.text
        assert "End and rate" not in ann.text
        assert "1 user Hello &lt;b&gt;you&lt;/b&gt;" in ann.say("Hello <b>you</b>")
        assert "3 user And now?" in ann.say("And now?"), "its own reply is part of the context"
        assert "secret-bot" not in ann.text
        assert "How was it?" in ann.send("/chat", action="end")
        assert not (folder / "dialogues.jsonl").exists(), "not rated yet"
        ann.send("/judge", q1="1")
        assert (ann.status, "Choose one." in ann.text) == (422, True)
        ann.send("/judge", q0="3", q1="1", q2="nice")
        assert "1 conversation rated" in ann.text
        ann.say("Another one")
    talk = next(formats.read(folder / "dialogues.jsonl"))
    assert (talk.id, talk.system, talk.meta["setting"]) == ("ann-1", "secret-bot", "dynamic")
    assert [turn.text for turn in talk.turns] == [
        "Hello <b>you</b>",
        "1 user Hello <b>you</b>",
        "And now?",
        "3 user And now?",
    ]
    scores = Scores.read(folder / "ratings.csv")
    assert [
        (row.dialogue_id, row.turn, row.source, row.dimension, row.value, row.note) for row in scores
    ] == [
        ("ann-1", None, "human:user", "overall", 4.0, None),
        ("ann-1", None, "human:user", "again", 1.0, None),
        ("ann-1", None, "human:user", "comment", None, "nice"),
    ]
    kind = study(scores, resamples=100, permutations=100).schema
    assert kind is not None
    assert (kind.participation, kind.context, kind.evaluator) == ("participant", "dynamic", "human")
    connected = set((tmp_path / "connected.txt").read_text().splitlines())
    assert connected == {f"('127.0.0.1', {server.port})"}, "it connected elsewhere"


def test_nothing_is_lost_when_the_server_dies(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "talks"
    with chatting(folder, server.at("echo")) as links:
        Client(links["ann"]).say("First words")
        before = links
    with chatting(folder, server.at("echo")) as links:
        assert {name: link.rpartition("/")[2] for name, link in links.items()} == {
            name: link.rpartition("/")[2] for name, link in before.items()
        }, "the same links"
        ann = Client(links["ann"])
        assert "1 user First words" in ann.text
        assert "3 user Second words" in ann.say("Second words")


def test_a_system_that_fails_can_be_asked_again(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with chatting(tmp_path / "talks", server.at("echo"), "--tries", "1") as links:
        ann = Client(links["ann"])
        ann.say("please fail")
        assert "has not answered" in ann.text
        assert "as you wish" not in ann.text, "what an endpoint says about itself is not for raters"
        assert "has not answered" in ann.send("/chat", action="again")
        assert "2 user Never mind" in ann.say("Never mind")
        ann.send("/chat", action="end")
        ann.send("/judge", q0="0", q1="0")
    talk = next(formats.read(tmp_path / "talks" / "dialogues.jsonl"))
    assert [turn.speaker for turn in talk.turns] == ["user", "user", "assistant"]
    assert [one["turn"] for one in talk.meta["failures"]] == [1, 1]
    assert "HTTP 400" in talk.meta["failures"][0]["why"]
    assert capfd.readouterr().err.count("secret-bot did not answer: ") == 2


def test_what_could_not_be_saved_was_not_said(server: Server, tmp_path: Path) -> None:
    kept = tmp_path / "talks" / "talks"
    with chatting(tmp_path / "talks", server.at("echo")) as links:
        ann = Client(links["ann"])
        ann.say("First words")
        fields = ann.hidden()
        kept.rename(tmp_path / "aside")
        kept.write_text("in the way")
        ann.open("/chat", {**fields, "text": "Lost words", "action": "say"})
        assert (ann.status, "Not saved" in ann.text) == (507, True)
        assert "Lost words" not in ann.open("/chat")
        kept.unlink()
        (tmp_path / "aside").rename(kept)
        ann.open("/chat", {**fields, "text": "Found words", "action": "say"})
        assert "3 user Found words" in ann.text


def test_sent_twice_is_said_once(server: Server, tmp_path: Path) -> None:
    with chatting(tmp_path / "talks", server.at("brief")) as links:
        clients = [Client(links["ann"]) for _ in range(4)]
        fields = {**clients[0].hidden(), "text": "Only once", "action": "say"}
        before = server.count("brief")
        together(lambda one: one.open("/chat", fields), *[(one,) for one in clients])
        assert server.count("brief") == before + 1
        assert clients[0].open("/chat").count("Only once") == 2, "the words and the echo"


def test_who_may_do_what(server: Server, tmp_path: Path) -> None:
    with chatting(tmp_path / "talks", server.at("echo")) as links:
        ann, bob = Client(links["ann"]), Client(links["bob"])
        ann.say("A secret of Ann")
        assert "secret of Ann" not in bob.open("/chat"), "others' conversations are not shown"
        nobody = Client(links["ann"].replace("/in/", "/in/x"))
        assert nobody.status == 401
        for path in ("/", "/chat", "/judge"):
            nobody.open(path)
            assert nobody.status == 401
        ann.open("/chat", {"text": "no code", "action": "say", "turns": "2"})
        assert ann.status == 403
        ann.open("/chat")
        stolen = {**ann.hidden(), "code": Client(links["bob"]).hidden()["code"], "text": "x", "action": "say"}
        ann.open("/chat", stolen)
        assert ann.status == 403
        ann.open("/chat")
        ann.open("/chat", {**ann.hidden(), "text": "x", "action": "say"}, Origin="http://evil.example")
        assert ann.status == 403
        ann.open("/chat", Host="evil.example")
        assert ann.status == 421
        ann.open("/chat")
        ann.open("/chat", {**ann.hidden(), "text": "x" * 400_000, "action": "say"})
        assert ann.status == 413
        assert "x x" not in ann.open("/chat")
        ann.open("/judge", {**ann.hidden(), "q0": "1"})
        assert "How was it?" not in ann.text, "no rating before the end"
        assert not (tmp_path / "talks" / "ratings.csv").exists()
    assert (tmp_path / "talks").stat().st_mode & 0o077 == 0
    assert (tmp_path / "talks" / "people.json").stat().st_mode & 0o077 == 0


def test_what_a_folder_and_a_scheme_must_be(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not a folder of conversations"):
        ChatFolder(tmp_path / "other", ["ann"])
    with pytest.raises(UsageError, match="rated as a whole"):
        ChatFolder(tmp_path / "a", ["ann"], "turn-quality")
    ChatFolder(tmp_path / "b", ["ann"], "dialogue").close()
    (tmp_path / "b" / "people.json").write_text(json.dumps({"people": 3}))
    with pytest.raises(DataError, match=r"people\.json: not a file of people"):
        ChatFolder(tmp_path / "b", ["ann"])
    ChatFolder(tmp_path / "d", ["ann"]).close()
    keys = json.loads((tmp_path / "d" / "people.json").read_text())
    for token in ("", "short"):
        (tmp_path / "d" / "people.json").write_text(json.dumps({**keys, "people": {"ann": token}}))
        with pytest.raises(DataError, match=r"people\.json: not a file of people and their tokens"):
            ChatFolder(tmp_path / "d", ["ann"])
    with pytest.raises(UsageError, match="not a name"):
        ChatFolder(tmp_path / "c", [" "])


def test_one_server_for_a_folder(server: Server, tmp_path: Path) -> None:
    """Two would write over each other's conversations, and lose something that was acknowledged."""
    with chatting(tmp_path / "talks", server.at("echo")) as links:
        with pytest.raises(BusyError, match="another `dialeval chat` runs here"):
            ChatFolder(tmp_path / "talks", ["ann"])
        assert "Hello" in Client(links["ann"]).say("Hello")
    again = ChatFolder(tmp_path / "talks", ["ann"])  # after a kill
    kept = again.current("ann")
    assert kept is not None and kept.turns[0].text == "Hello"
    again.close()
    ChatFolder(tmp_path / "talks", ["ann"]).close()


def test_every_reply_is_rated_as_well_as_the_whole(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "talks"
    with chatting(folder, server.at("echo"), "--reply-scheme", "turn-quality") as links:
        ann = Client(links["ann"])
        assert "How do you like the marked reply?" not in ann.text, "nothing was replied yet"
        ann.say("First")
        assert 'class="tag">marked' in ann.text
        ann.say("Words that must not be lost\n<b>")
        assert (ann.status, "Choose one." in ann.text) == (422, True)
        assert "Words that must not be lost\n&lt;b&gt;</textarea>" in ann.text
        assert "3 user" not in ann.text, "nothing was said"
        ann.send("/chat", text=" ", action="say", q0="0")
        assert 'value="0" data-key="0" accesskey="0" checked' in ann.text, "kept, and may still be changed"
        ann.send("/chat", text="Second", action="say", q0="2")
        assert "3 user Second" in ann.text
        ann.send("/chat", text="please fail", action="say", q0="1")
        assert "has not answered" in ann.text
        assert "How do you like" not in ann.text, "what is not there is not rated"
        ann.say("Third")
        ann.send("/chat", action="end")
        assert (ann.status, "Choose one." in ann.text) == (422, True)
        assert "How was it?" in ann.send("/chat", action="end", q0="0")
    with chatting(folder, server.at("echo")) as links:  # what is asked stays so
        ann = Client(links["ann"])
        ann.send("/judge", q0="3", q1="1")
        assert "How do you like the marked reply?" in ann.say("Another one")
    found = Scores.read(folder / "ratings.csv")
    assert [(row.turn, row.source, row.dimension, row.value) for row in found] == [
        (None, "human:user", "overall", 4.0),
        (None, "human:user", "again", 1.0),
        (1, "human:user", "turn-quality", 2.0),
        (3, "human:user", "turn-quality", 1.0),
        (6, "human:user", "turn-quality", 0.0),
    ]
    assert "scheme:conversation,turn-quality" in str(found.signatures["human:user"])
    turns = study(found, level="turn", resamples=100, permutations=100)
    assert turns.schema is not None
    assert (turns.schema.participation, turns.schema.context) == ("participant", "dynamic")
    for wrong in ("dialogue", "coherence", "wizard"):
        with pytest.raises(UsageError, match=rf"--reply-scheme {wrong}: replies are rated as they come"):
            ChatFolder(tmp_path / "x", ["ann"], reply_scheme=wrong)
    with pytest.raises(UsageError, match="was created with other questions"):
        ChatFolder(folder, ["ann"], reply_scheme="appropriateness")
