"""What the documented schemas of logs hold and how it could be misread, one case each."""

import json
from pathlib import Path
from typing import Any

import pytest

from dialeval.dialogues import Dialogue
from dialeval.dialogues.formats import read
from dialeval.dialogues.formats.values import feedback, instant

SAMPLES = Path(__file__).parent / "samples"
ASKED, ANSWER = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}


def found(*sources: Any) -> list[Dialogue]:
    return [one for source in sources for one in read(source, note=lambda _: None)]


def said(one: Dialogue) -> list[tuple[str, str]]:
    return [(turn.speaker, turn.text) for turn in one.turns if turn.text]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("anthropic-citations.jsonl", "Parcel 7 is in Lyon; 8 is unknown."),  # a text cut where it cites
        ("vertex-batch.jsonl", "22 in Bern, 30 in Rome."),  # a text in parts
        ("bedrock-log.jsonl", "Hi, how can I help?"),  # streamed events
        ("telegram.json", "In Lyon."),
        ("openai-responses-chains.jsonl", "Parcel 7 is in Lyon, parcel 8 in Bern."),
        ("sharegpt-tags.jsonl", "In Lyon."),  # thoughts in tags are none of it
    ],
)
def test_the_last_reply_of_a_sample_is_whole(name: str, text: str) -> None:
    last = [turn.text for turn in found(SAMPLES / name)[0].turns if turn.speaker == "assistant"][-1]
    assert last == text


@pytest.mark.parametrize(
    "name",
    ["hubspot.json", "zendesk-users.json", "twilio.json", "twilio-sms.json", "teams.json", "livechat.json"],
)
def test_messages_that_list_the_newest_first_and_notes_for_agents(name: str) -> None:
    (one,) = found(SAMPLES / name)
    (asked, answered) = said(one)[-2:]
    assert asked[0] == "user" and asked[1].startswith("Where is")
    assert answered[0] == "assistant" and answered[1].startswith("In Lyon.")
    assert not any("VIP" in turn.text for turn in one.turns)


def test_an_error_is_no_reply_and_a_second_choice_is_none_either() -> None:
    failed = {"custom_id": "b", "response": {"body": {"error": {"message": "Rate limit", "code": "429"}}}}
    good = {"custom_id": "a", "response": {"body": {"choices": [{"message": ANSWER}, {"message": ASKED}]}}}
    notes: list[str] = []
    (one,) = read([failed, good], note=notes.append)
    assert said(one) == [("assistant", "Hello")]
    assert notes == [
        "the list: in record 1: the request failed (429)",
        "the list: in record 2: choices after the first",
    ]


def response(name: str, before: str | None, text: str, when: int) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    output = [{"type": "message", "role": "assistant", "content": content}]
    kept = {"id": name, "object": "response", "created_at": when, "previous_response_id": before}
    return {**kept, "input": f"ask {text}", "output": output}


def test_a_response_that_is_continued_twice_is_two_dialogues() -> None:
    rows = [response("c", "a", "3", 30), response("a", None, "1", 10), response("b", "a", "2", 20)]
    one, two = found(rows)
    assert [turn.text for turn in one.turns] == ["ask 1", "1", "ask 2", "2"] and one.id == "a-b"
    assert [turn.text for turn in two.turns] == ["ask 1", "1", "ask 3", "3"] and two.id == "a-c"


def span(name: str, start: int, before: list[Any], after: dict[str, Any]) -> dict[str, Any]:
    held = {"gen_ai.input.messages": before, "gen_ai.output.messages": [after], "session.id": "s"}
    return {"trace_id": "t", "name": name, "start_time_unix_nano": start, "attributes": held}


def test_calls_within_one_second_are_put_in_order() -> None:
    more = [ASKED, ANSWER, {"role": "user", "content": "So?"}]
    second = 1767225600 * 10**9
    last = span("b", second + 900, more, {"role": "assistant", "content": "Yes."})
    (one,) = found([last, span("a", second + 100, [ASKED], ANSWER)])
    assert [turn.text for turn in one.turns] == ["Hi", "Hello", "So?", "Yes."]
    assert instant("2026-01-01T00:00:00Z") < instant("2026-01-01T00:00:00.1Z")
    assert instant("Thu, 01 Jan 2026 10:00:00 +0000") == instant("2026-01-01T11:00:00+01:00")


def test_feedback_of_a_trace_without_a_reply_does_not_go_to_the_reply_before() -> None:
    kept = {"sessionId": "s", "environment": "default", "projectId": "p"}
    good = {"id": "1", "timestamp": "2026-01-01T00:00:00Z", "input": "Hi", "output": "Hello", **kept}
    bad = {**good, "id": "2", "timestamp": "2026-01-01T00:01:00Z", "input": "So?", "output": None}
    (one,) = found([good, {**bad, "scores": [{"name": "user-thumbs", "value": 0}]}])
    assert one.turns[1].feedback == {} and one.feedback == {"thumbs": 0.0}


def test_a_comment_in_words_is_no_thumb() -> None:
    meta: dict[str, Any] = {}
    assert feedback({"rating": 2, "comment": "no"}, meta=meta) == {"rating": 2.0}
    assert meta == {"feedback_comment": "no"}


def test_lines_of_items_with_an_id_are_a_dialogue_each(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({"id": name, "items": [ASKED, ANSWER]}) + "\n" for name in "ab"))
    assert [(one.id, len(one.turns)) for one in found(path)] == [("a", 2), ("b", 2)]


def test_a_message_that_calls_tools_and_goes_on_is_cut_at_the_results() -> None:
    call, result = {"type": "tool_use", "id": "c", "name": "f"}, {"type": "tool_result", "tool_use_id": "c"}
    parts = [{"type": "text", "text": "I'll look."}, call, {**result, "content": "7"}]
    (one,) = found(
        [{"messages": [ASKED, {"role": "assistant", "content": [*parts, {"type": "text", "text": "7."}]}]}]
    )
    assert said(one)[1:] == [("assistant", "I'll look."), ("tool", "7"), ("assistant", "7.")]


def test_states_of_a_thread_are_one_dialogue_and_another_branch_is_counted() -> None:
    def state(*texts: str) -> dict[str, Any]:
        held = [{"type": ("human", "ai")[n % 2], "content": text} for n, text in enumerate(texts)]
        return {"values": {"messages": held}, "next": [], "checkpoint": {"thread_id": "t"}}

    notes: list[str] = []
    (one,) = read([state("Hi", "Hello"), state("Hi"), state("Bye")], note=notes.append)
    assert [turn.text for turn in one.turns] == ["Hi", "Hello"]
    assert notes == ["the list: in record 3: a state of another branch of its thread"]


def test_requests_without_a_session_are_read_as_they_come() -> None:
    def forever() -> Any:
        for number in range(3):
            yield {
                "custom_id": str(number),
                "body": {"messages": [ASKED]},
                "response": {"choices": [{"message": ANSWER}]},
            }
        raise AssertionError("read on")

    from dialeval.dialogues.formats.shapes import dialogues_of

    stream = dialogues_of(enumerate(forever(), 1), "x")
    assert [next(stream)[1].id for _ in range(3)] == ["0", "1", "2"]


def test_what_is_no_log_of_inspect_is_refused(tmp_path: Path) -> None:
    from dialeval.errors import DataError

    path = tmp_path / "x.eval"
    path.write_bytes(b"PK nothing")
    with pytest.raises(DataError, match=r"x\.eval: no log of inspect_ai"):
        list(read(path))


def test_a_folder_of_several_formats(tmp_path: Path) -> None:
    for name in ("hubspot.json", "tau.json", "inspect.eval", "prompts.csv"):
        (tmp_path / name).write_bytes((SAMPLES / name).read_bytes())
    assert len(found(tmp_path)) == 1 + 2 + 2 + 2
