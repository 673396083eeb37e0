"""The package as a whole: what import costs, what is public, what may not occur in the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dialeval

SOURCE = Path(dialeval.__file__).parent
HEAVY = {
    "numpy",
    "scipy",
    "pyarrow",
    "matplotlib",
    "sacrebleu",
    "jinja2",
    "msgspec",
    "rich",
    "typer",
    "torch",
}


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_import_loads_nothing_heavy() -> None:
    assert not modules_after("import dialeval") & HEAVY


def test_help_loads_only_the_command_line() -> None:
    call = "try: dialeval.cli.main()\nexcept SystemExit: pass"
    code = f"import dialeval.cli\nsys.argv = ['dialeval', '--help']\n{call}"
    assert not modules_after(code) & (HEAVY - {"typer", "rich"})


def test_public_names_are_few_and_there() -> None:
    assert len(dialeval.__all__) <= 13
    for name in dialeval.__all__:
        assert getattr(dialeval, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        dialeval.nonsense  # noqa: B018


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_executes_data(path: Path) -> None:
    """R12: no pickle, joblib, dill, torch.load, yaml.load, eval or exec under src, by syntax tree."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            assert not {name.partition(".")[0] for name in names} & {
                "pickle",
                "joblib",
                "dill",
                "marshal",
                "shelve",
            }
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("eval", "exec", "torch.load", "yaml.load", "compile", "__import__"), called
