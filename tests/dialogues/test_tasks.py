"""Declared tasks: how wishes fit, what a query finds, and what is wrong with a declaration or its data."""

import json
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialeval.dialogues.tasks import SHIPPED, Task, open_schema, open_task
from dialeval.dialogues.tasks.task import TaskReader, active_domains
from dialeval.dialogues.tasks.venues import closeness, minutes
from dialeval.errors import DataError

TOML = """
name = "t"
[files]
goals = "goals.json"
[placeholders]
name = []
[domain.cafe]
table = "cafes.csv"
offer = "name"
[domain.cafe.slots]
area = "equal"
seats = "at-least"
opens = "at-most"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "task.toml").write_text(TOML)
    (tmp_path / "goals.json").write_text(json.dumps({"d1": {"cafe": {"informable": {"area": "north"}}}}))
    (tmp_path / "cafes.csv").write_text("ID,Area,Seats,Opens\n1,North,20,08:00\n2,?,8,10:30\n2,south,9,?\n")
    return tmp_path


def found(task: Task, **wishes: str) -> list[str]:
    return task.venues["cafe"].names(task.venues["cafe"].query(wishes))


def test_queries_of_a_table(folder: Path) -> None:
    task = open_task(str(folder / "task.toml"))
    assert found(task) == ["1", "2"]
    assert found(task, area="NORTH ") == ["1", "2"]  # a blank cell fits every wish
    assert found(task, area="south") == ["2"]
    assert found(task, seats="10") == ["1"]
    assert found(task, opens="9 am") == ["1", "2"]  # one row of 2 has a blank
    assert found(task, opens="9 am", area="north") == ["1"]  # but that row is in the south
    assert found(task, opens="soon", area="north") == []  # midnight
    assert found(task, area="dontcare", weather="fine") == ["1", "2"]


def test_rules_can_be_given_in_place_of_the_declared_ones(folder: Path) -> None:
    schema = str(folder / "task.toml")
    assert found(open_task(schema, rules={"times": "exact"}), opens="9 am", area="north") == []
    assert open_task(schema).sha == open_task(schema).sha
    before = open_task(schema)
    assert open_task(schema) is before
    (folder / "cafes.csv").write_text("id,area,seats,opens\n7,north,1,09:00\n")
    assert found(open_task(schema)) == ["7"]
    assert open_task(schema).sha != before.sha


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("09:15", 555),
        ("9:15", 555),
        ("18 : 30", 1110),
        ("1730", 1050),
        ("929", 569),
        ("5 pm", 1020),
        ("5:15 p.m.", 1035),
        ("12 pm", 720),
        ("before 8 am", 480),
        ("morning", 480),
        ("dontcare", None),
        ("", None),
    ],
)
def test_times_are_read(text: str, wanted: int | None) -> None:
    assert minutes(text) == wanted


@given(st.text("abc d", max_size=12), st.text("abc d", max_size=12))
def test_closeness_is_a_share_and_at_least_what_difflib_finds(one: str, other: str) -> None:
    value = closeness(one, other)
    assert value == closeness(other, one)
    assert 0 <= value <= 1
    short, long = sorted((one, other), key=len)
    windows = [long[at : at + len(short)] for at in range(len(long) - len(short) + 1)]
    if short:
        assert value >= max(SequenceMatcher(None, short, window).ratio() for window in windows) - 1e-9
        assert (value == 1) == (short in long)


def test_active_domains_follow_what_changes() -> None:
    hotel, train = {"area": "east"}, {"day": "monday"}
    both = {"hotel": hotel, "train": train | {"leave": "9:00"}}
    assert active_domains([{}, {"hotel": hotel}, both, both]) == [(), ("hotel",), ("train",), ("train",)]
    # two at once: the one with more slots; then, with nothing new, the other
    assert active_domains([both, both, both]) == [("train",), ("hotel",), ("hotel",)]
    # a domain that changes again stays
    more = both | {"train": both["train"] | {"people": "2"}}
    assert active_domains([both, more]) == [("train",), ("train",)]
    assert active_domains([{}, {}]) == [(), ()]


def test_placeholders_in_all_their_spellings() -> None:
    reader, unknown = TaskReader(open_task("example")), Counter[str]()
    text = "[Cafe_NAME] [value_telephone] [booking number] [cafe_wifi] [] [name [area]] [[price]]"
    assert reader.placeholders(text, unknown) == {"name", "phone", "reference", "area", "price"}
    assert unknown == {"[cafe_wifi]": 1}
    assert reader.text("[value_name]s are n't [cafe_wifi] cheap -ly .") == "NAME aren't  cheap ."


def test_text_for_bleu_is_written_in_one_way() -> None:
    reader = TaskReader(open_task("example"))
    written = (
        "There are [value_choice] cafe-s . They do n't open .",
        "there are [count] cafe -s . they don't open .",
    )
    assert len({reader.text(one) for one in written}) == 1
    assert reader.text(written[0]) == "there are COUNT cafe . they don't open ."


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('offer = "name"', 'offer = "brand"', "domain.cafe.offer: unknown placeholder 'brand'"),
        ('offer = "name"', "", "needs a placeholder for the venue"),
        ('area = "equal"', 'area = "similar"', "not a declaration of a task: Invalid enum value 'similar'"),
        ('name = "t"', 'name = "t"\nnmae = 1', "unknown field `nmae`"),
        ('area = "equal"', 'area = "equal"\nwifi = "equal"', "no column 'wifi'"),
        ('name = "t"', "name", "not a declaration"),
        ("[placeholders]", '[rules]\nbooked = "logged"\n[placeholders]', 'booked = "logged" needs a file'),
        ('table = "cafes.csv"', 'table = "pubs.csv"', "pubs.csv: this file of the task is missing"),
    ],
)
def test_wrong_declarations_are_named(folder: Path, old: str, new: str, message: str) -> None:
    assert old in TOML
    (folder / "task.toml").write_text(TOML.replace(old, new, 1))
    with pytest.raises(DataError) as raised:
        found(open_task(str(folder / "task.toml")))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("goals", "message"),
    [
        ({"d1": {"pub": {}}}, "d1: unknown domain 'pub'; known: cafe"),
        ({"d1": {"cafe": {"requestable": ["Fax"]}}}, "d1: unknown placeholder 'Fax'"),
        ({"d1": {"cafe": {"info": {}}}}, "unknown field `info`"),
        ({"d1": {}, "D1.json": {}}, "D1.json: the same dialogue as 'd1'"),
        ([], "Expected `object`"),
    ],
)
def test_wrong_goals_are_named(folder: Path, goals: object, message: str) -> None:
    (folder / "goals.json").write_text(json.dumps(goals))
    with pytest.raises(DataError) as raised:
        _ = open_task(str(folder / "task.toml")).goals
    assert message in str(raised.value)


@pytest.mark.parametrize("table", ["[1, 2]", '{"id": 1', "{}\n", '[{"area": "x"}]'])
def test_wrong_tables_are_named(folder: Path, table: str) -> None:
    (folder / "task.toml").write_text(TOML.replace("cafes.csv", "cafes.json"))
    (folder / "cafes.json").write_text(table)
    with pytest.raises(DataError, match=r"cafes\.json"):
        found(open_task(str(folder / "task.toml")))


def test_the_shipped_declarations_can_be_read() -> None:
    for name in SHIPPED:
        assert open_schema(name)[0].name == name


def test_queries_agree_with_a_plain_loop_over_the_real_tables(data_folder: Path) -> None:
    """The index finds what comparing row by row finds, for every wish of every goal."""
    if not (data_folder / "multiwoz").is_dir():
        pytest.skip("the public set multiwoz is not there")
    task = open_task()
    tables = {
        domain: json.loads((data_folder / "multiwoz" / str(declared.table)).read_text())
        for domain, declared in task.schema.domain.items()
        if declared.table
    }
    columns = {"leave": "leaveAt", "arrive": "arriveBy", "id": "trainID"}
    checked = 0
    for goal in list(task.goals.values())[:300]:
        for domain, wanted in goal.items():
            if domain not in tables:
                continue
            wishes = {
                k: v
                for k, v in task.wishes(wanted).items()
                if k not in ("name", "food", "departure", "destination")
            }
            expected = set()
            for row in tables[domain]:
                for slot, wish in wishes.items():
                    cell = str(row.get(columns.get(slot, slot)))
                    if cell == "?":
                        continue
                    if slot in columns:
                        if (cell < wish) if slot == "leave" else (cell > wish):
                            break
                    elif cell != wish:
                        break
                else:
                    expected.add(str(row["trainID"] if domain == "train" else row["id"]))
            assert set(task.venues[domain].names(task.venues[domain].query(wishes))) == expected
            checked += 1
    assert checked > 400
