"""Names become recipes: built-in ones, those of other packages, and broken ones that say so."""

import subprocess
import sys
from pathlib import Path

import pytest

from dialeval.errors import UsageError
from dialeval.training.registry import describe_recipe, recipe, recipe_names

BUILT_IN = ("actbert", "segment-act")
TOYS = Path(__file__).parents[1] / "jobs"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOYS))
    import toy_recipes

    monkeypatch.syspath_prepend(str(toy_recipes.install(tmp_path)))


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_recipes_say_what_they_make(name: str) -> None:
    assert name in recipe_names()
    assert len(describe_recipe(name)["what"]) > 10


@pytest.mark.usefixtures("installed")
def test_recipes_of_other_packages() -> None:
    assert {"toy", "toy-acts", *BUILT_IN} <= set(recipe_names())
    assert describe_recipe("toy")["what"] == "Tell good from bad by lengths, or by words with an encoder."
    assert recipe("toy").name == "toy"
    assert recipe("toy", "some/encoder").name == "toy-pairs"


@pytest.mark.usefixtures("installed")
def test_a_built_in_name_is_not_taken_by_another_package() -> None:
    assert describe_recipe("segment-act")["what"] != describe_recipe("toy")["what"]


@pytest.mark.usefixtures("installed")
def test_what_is_broken_says_so() -> None:
    with pytest.raises(UsageError, match=r"'broken' is no_such_package:recipe, which fails: No module"):
        recipe("broken")
    with pytest.raises(UsageError, match="which is not a function"):
        recipe("number")
    assert "fails" in describe_recipe("broken")["what"]  # and the others can still be listed
    for call in (recipe, describe_recipe):
        with pytest.raises(
            UsageError, match=r"unknown recipe 'cake'; known: actbert, bert-ruber, broken, coherence"
        ):
            call("cake")


def test_asking_for_names_imports_no_recipe() -> None:
    code = (
        "import sys, dialeval.training.registry as r\nr.recipe_names()\n"
        "print({'torch', 'transformers', 'dialeval.training.actbert_recipe'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"
