"""Who gets what: balanced, reproducible, and never the same item twice."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from annotation_server import answer_all, make_study, talks
from hypothesis import given
from hypothesis import strategies as st

from dialeval.annotation import AnnotationProject, create, read_scheme
from dialeval.annotation import assignment as act
from dialeval.annotation.assignment import assign, order_for
from dialeval.annotation.items import is_swapped, make_items
from dialeval.annotation.project import snapshot
from dialeval.dialogues import dialogue
from dialeval.errors import DataError, UsageError


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 5), st.integers(0, 3), st.integers(1, 70))
def test_deals_are_fair(items: int, raters: int, wanted: int, seed: int, cap: int) -> None:
    load = {f"r{number}": 0 for number in range(raters)}
    pairs = assign(dict.fromkeys(range(items), wanted), {}, load, cap=cap, seed=seed)
    assert len(set(pairs)) == len(pairs)
    assert pairs == assign(dict.fromkeys(range(items), wanted), {}, load, cap=cap, seed=seed)
    counts = Counter(rater for _, rater in pairs)
    loads = [counts[rater] for rater in load]
    assert max(loads) <= cap
    assert max(loads) - min(loads) <= 1
    assert len(pairs) <= items * min(wanted, raters)
    if cap * raters >= items * min(wanted, raters) + raters:
        assert len(pairs) == items * min(wanted, raters)


def test_order_is_random_reproducible_and_the_raters_own() -> None:
    orders = {rater: order_for(rater, range(50)) for rater in ("ann", "bob")}
    assert orders["ann"] == order_for("ann", range(50)) != orders["bob"]
    assert sorted(orders["ann"]) == list(range(50))
    assert order_for("ann", range(50), seed=1) != orders["ann"]
    swap_sides = sum(is_swapped("ann", item) for item in range(1000))
    assert 430 < swap_sides < 570


def seats(study: AnnotationProject) -> dict[str, list[int]]:
    with study.store.reading() as db:
        rows = db.execute("SELECT rater, item FROM seats ORDER BY rater, place").fetchall()
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row["rater"], []).append(row["item"])
    return found


def test_the_same_seed_makes_the_same_study(tmp_path: Path) -> None:
    scheme = msgspec.structs.replace(read_scheme("turn-quality"), raters_per_item=2, items=7)
    made = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        study = create(tmp_path / name, scheme, talks(9), ["ann", "bob", "cem"], seed=seed)
        made.append((study.items, seats(study)))
        study.close()
    assert made[0] == made[1] != made[2]
    assert len(made[0][0]) == 7
    assert sorted(map(len, made[0][1].values())) == [4, 5, 5]


def test_the_same_reply_after_the_same_context_is_judged_once(tmp_path: Path) -> None:
    said = [("user", "Hi!"), ("assistant", "Hello!")]
    chats = [dialogue(said, "a", system="x"), dialogue(said, "b", system="y")]
    chats.append(dialogue([("user", "Hi!"), ("assistant", "Go away!")], "c", system="z"))
    items = make_items(read_scheme("appropriateness"), chats)
    assert [one.places for one in items] == [((0, 1, None), (1, 1, None)), ((2, 1, None),)]
    assert len(make_items(read_scheme("turn-quality"), chats)) == 3
    assert len(make_items(read_scheme("wizard"), chats)) == 1  # one context, whatever was said after it


def test_pairs_come_from_ids_or_a_meta_field() -> None:
    def one(name: str, system: str, reply: str, **meta: str) -> object:
        return dialogue([("user", "Hi!"), ("assistant", reply)], name, system=system, meta=meta)

    same_ids = [one("a", "x", "Hello!"), one("b", "x", "Hm."), one("a", "y", "What?"), one("b", "y", "Hm.")]
    scheme = read_scheme("pairwise")
    assert [(item.place[0], item.other[0]) for item in make_items(scheme, same_ids)] == [(0, 2), (1, 3)]  # type: ignore[index,arg-type]
    replies = make_items(read_scheme("pairwise-replies"), same_ids)  # type: ignore[arg-type]
    assert [(item.place, item.other) for item in replies] == [((0, 1, None), (2, 1, None))]
    by_meta = [one("a", "x", "Hello!", pair="p"), one("b", "y", "What?", pair="p")]
    assert len(make_items(scheme, by_meta)) == 1  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no two dialogues"):
        make_items(scheme, by_meta[:1])  # type: ignore[arg-type]


def test_segments_are_items(tmp_path: Path) -> None:
    chats = [dialogue([("user", "Hey, how are you?"), ("assistant", "Fine.")])]
    assert [one.place for one in make_items(read_scheme("segment-acts"), chats)] == [
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 0),
    ]


def test_further_rounds_until_a_majority(tmp_path: Path) -> None:
    chats = [dialogue([("user", "Hm.")], "d")]
    study = create(tmp_path / "s", read_scheme("segment-acts"), chats, ["a", "b", "c", "d", "e"])
    first = [rater for rater in "abcde" if act.current(study, rater) is not None]
    assert len(first) == 3
    for rater, value in zip(first, ("inform", "question", "apology"), strict=True):
        answer_all(study, rater, {"act": value})
    second = [rater for rater in "abcde" if act.current(study, rater) is not None]
    assert len(second) == 1 and second[0] not in first  # three different answers: one more looks
    answer_all(study, second[0], {"act": "thanking"})
    third = [rater for rater in "abcde" if act.current(study, rater) is not None]
    assert len(third) == 1
    answer_all(study, third[0], {"act": "question"})
    assert all(act.current(study, rater) is None for rater in "abcde")
    rounds = [one.round for one in snapshot(study).rater_answers]
    assert sorted(rounds) == [1, 1, 1, 2, 3]
    study.close()


def test_whoever_joins_later_gets_what_lacks_somebody(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "s", raters=["ann", "bob"])
    study = AnnotationProject(folder)
    assert [len(items) for items in seats(study).values()] == [10, 10]
    assert study.add(["cem", "ann"]) == ["cem"]
    assert len(seats(study)["cem"]) == 10
    assert study.add(["dan"]) == ["dan"]
    assert "dan" not in seats(study)  # every item has its three
    with pytest.raises(UsageError, match="already"):
        study.add(experts=["ann"])
    study.close()


def test_gold_goes_to_everybody_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    from dialeval.annotation.scheme import GoldItem

    gold = GoldItem(dialogue="secret-id-3", turn=1, answers={"turn-quality": (2,)})
    scheme = msgspec.structs.replace(
        read_scheme("turn-quality"), raters_per_item=1, items=4, gold=(gold,), items_per_rater=2
    )
    study = create(tmp_path / "s", scheme, talks(6), ["ann", "bob", "cem"])
    golden = [number for number, item in enumerate(study.items) if item.gold]
    assert len(golden) == 1 and len(study.items) == 4
    assert all(golden[0] in items for items in seats(study).values())
    assert all(len(items) <= 2 for items in seats(study).values())
    study.close()
    wrong = msgspec.structs.replace(scheme, gold=(msgspec.structs.replace(gold, turn=2),))
    with pytest.raises(DataError, match=r"gold\[0\]"):
        create(tmp_path / "t", wrong, talks(6), ["ann"])
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("names", [[], ["ann", "ann"], ["a" * 61], ["coordinator"], [" "]])
def test_names_that_cannot_be(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(UsageError):
        make_study(tmp_path / "s", raters=names)
    assert not (tmp_path / "s").exists()
