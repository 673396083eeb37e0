"""A dialogue in a language that the models do not know is unscored, and says so; English stays as it was."""

import subprocess
import sys

import pytest

from dialeval.dialogues import dialogue
from dialeval.dialogues.languages import dialogue_language, language_of
from dialeval.metrics import build, score, signature_of

GERMAN = dialogue(
    [
        ("user", "Wo ist mein Paket? Es sollte gestern schon kommen."),
        ("assistant", "Es liegt noch im Depot in Köln."),
    ],
    "de",
)
ENGLISH = dialogue(
    [("user", "Where is my parcel?"), ("assistant", "It is still in the depot in Cologne.")], "en"
)


@pytest.mark.parametrize(
    "name", ["quality", "turn-quality", "coherence", "user-reaction", "similarity", "student"]
)
def test_a_foreign_dialogue_is_unscored_unless_asked_for(name: str) -> None:
    known = {row.dialogue_id: row for row in score([ENGLISH, GERMAN], name) if row.turn == 1}
    assert known["de"].value is None
    assert known["de"].note == "language de: its models know en (language=any scores it)"
    anyway = {
        row.dialogue_id: row for row in score([ENGLISH, GERMAN], f"{name}:language=any") if row.turn == 1
    }
    assert anyway["en"].value == known["en"].value and anyway["en"].note == known["en"].note
    assert (anyway["de"].note or "").startswith("language") is False


def test_the_option_stands_in_the_signature_and_the_default_does_not() -> None:
    assert "language" not in str(signature_of(build("quality")))
    assert "|language:any|" in str(signature_of(build("quality:language=any")))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Hi", None), ("Ok, danke!", None), ("4711", None), ("iPhone 15 Pro Max 256 GB", None),
        ("https://example.org/wo/ist/mein/paket/geblieben", None), ("haha lol nice", None),
        ("Bonjour, je voudrais changer mon adresse de livraison.", "fr"),
        ("我想退货请问应该怎么办理呢", "zh"),
        ("I would like to change the address, please.", "en"),
        ("Ik wil graag mijn pakket ruilen voor een ander.", "nl"),
    ],
)  # fmt: skip
def test_short_and_odd_texts_have_no_language(text: str, code: str | None) -> None:
    assert language_of(text) == code


def test_the_log_knows_best() -> None:
    import msgspec

    assert dialogue_language(msgspec.structs.replace(GERMAN, language="nl")) == "nl"


def test_a_disk_without_room_for_the_identifier_is_an_error_of_one_line() -> None:
    code = (
        "import resource, tempfile\n"
        "from dialeval.dialogues.languages import language_of\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "from dialeval.errors import DataError\n"
        "try:\n"
        "    language_of('Wo ist mein Paket? Es sollte gestern schon kommen.')\n"
        "except DataError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "the language identifier cannot be read: " in done.stdout
    assert "make room where temporary files are" in done.stdout
