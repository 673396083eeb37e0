"""What dialeval depends on is pinned, and licensed in a way that goes with Apache-2.0."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"].values()
DECLARED = [*PROJECT["dependencies"], *(one for extra in EXTRAS for one in extra)]
FREE = re.compile(
    r"Apache|MIT|BSD|ISC|PSF|Python Software Foundation|MPL|Mozilla|Unlicense|Zlib|CC0|HPND", re.I
)
COPYLEFT = re.compile(r"\bA?GPL|GNU (Affero )?General Public|SSPL|BUSL|non.?commercial", re.I)


def name_of(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]+", requirement)[0]).lower()  # type: ignore[index]


def pinned() -> dict[str, str]:
    lines = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8").split()
    return {name_of(line): line.partition("==")[2] for line in lines}


def licence(name: str) -> str:
    """Return what a package says of its licence: the expression, else classifiers, else the first line."""
    found = metadata(name)
    said = [one for one in found.get_all("Classifier") or () if one.startswith("License ::")]
    expression = found.get("License-Expression")
    return expression or " ".join(said) or next(iter((found.get("License") or "").strip().splitlines()), "")


def needed() -> list[str]:
    """Return what is installed with the package and all its extras, one thing bringing the other."""
    waiting, seen = [name_of(one) for one in DECLARED], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        try:
            more = requires(name) or ()
        except PackageNotFoundError:  # of another system, or of another Python
            continue
        seen.add(name)
        waiting += [name_of(one) for one in more if "extra ==" not in one]
    return sorted(seen)


@pytest.mark.parametrize("name", needed())
def test_the_licence_goes_with_ours(name: str) -> None:
    said = licence(name)
    assert FREE.search(said), f"{name} says of its licence: {said!r}"
    assert not COPYLEFT.search(said), f"{name}: {said}"


def test_everything_is_pinned_and_within_its_bounds() -> None:
    pins = pinned()
    for requirement in DECLARED:
        name, lowest = name_of(requirement), re.search(r">=([0-9.]+)", requirement)
        assert name in pins, f"{name} is not in requirements/constraints.txt: make lock"
        assert lowest, f"{requirement} has no lower bound"
        one, other = (
            tuple(int(part) for part in re.findall(r"\d+", text)) for text in (lowest[1], pins[name])
        )
        assert other >= one, f"{name} is pinned below its bound"
    assert all(pins.values()), "a line of requirements/constraints.txt is no pin"


def test_oracles_under_the_gpl_stay_out_of_the_package() -> None:
    assert COPYLEFT.search("License :: OSI Approved :: GNU General Public License v3 (GPLv3)")
    assert "krippendorff" not in needed()
