"""Build a release and check what was built: `make release`.

Wheel and sdist are built into dist/. Their contents are looked at: licences are in, no data set is, and
neither is larger than 60 MB. The wheel is installed in a fresh environment of every Python at hand, where
`demo` and `verify` run. SHA256SUMS is written last, and signed by `ssh-keygen -Y sign` if SIGNING_KEY names a
key.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

DIST = Path("dist")
LARGEST = 60_000_000
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
NEEDED = ("LICENSE", "README.md")
DATA_SETS = ("dailydialog", "multiwoz", "conture", "dstc9", "personachat", "topicalchat", "swda", "convai2")
DATA_ENDINGS = (".csv.gz", ".json.gz", ".jsonl.gz", ".parquet", ".zip", ".arrow", ".pkl", ".bin", ".pt")


def main() -> None:
    """Build, check, install, sign."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "hatchling", "build", "-d", str(DIST))
    for path in sorted(DIST.iterdir()):
        for problem in problems(path):
            sys.exit(f"{path.name}: {problem}")
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, {len(names(path))} files")
    (wheel,) = DIST.glob("*.whl")
    for python in pythons():
        try_wheel(python, wheel)
    sums = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(DIST.iterdir())
    )
    (DIST / "SHA256SUMS").write_text(sums)
    if key := os.environ.get("SIGNING_KEY"):
        run("ssh-keygen", "-Y", "sign", "-f", key, "-n", "dialeval", str(DIST / "SHA256SUMS"))
    print(sums + ("signed: SHA256SUMS.sig" if key else "not signed: set SIGNING_KEY to an ssh key"))


def names(path: Path) -> list[str]:
    """Return the names of the files in a wheel or an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.namelist()
    with tarfile.open(path) as sdist:
        return [one.name for one in sdist if one.isfile()]


def problems(path: Path) -> list[str]:
    """Return what is wrong with a wheel or an sdist."""
    held = names(path)
    ends = {Path(name).name for name in held}
    found = [f"{name} is missing" for name in NEEDED if name not in ends and path.suffix != ".whl"]
    found += ["LICENSE is missing"] if "LICENSE" not in ends else []
    found += [f"{path.stat().st_size / 1e6:.1f} MB: too large"] if path.stat().st_size > LARGEST else []
    for name in held:
        folders = {part.lower() for part in Path(name).parts[:-1]}
        is_data = name.lower().endswith(DATA_ENDINGS) and "tests" not in folders
        if is_data or folders & set(DATA_SETS):
            found.append(f"{name} looks like a data set")
    return found


def pythons() -> list[str]:
    """Return every Python at hand that is supported; one that `pyenv` only shims is passed over."""
    found = []
    for version in SUPPORTED:
        roots = Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python3")
        for one in (shutil.which(f"python{version}"), *map(str, sorted(roots, reverse=True))):
            if one and runs(one):
                found.append(one)
                break
    return found


def runs(python: str) -> bool:
    """Whether a Python starts."""
    done = subprocess.run([python, "-c", "import ssl, venv"], check=False, capture_output=True)
    return done.returncode == 0


def try_wheel(python: str, wheel: Path) -> None:
    """Install the wheel in a fresh environment, and run the demo and `verify` there."""
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", f"{folder}/env")
        pip = (f"{folder}/env/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
        run(*pip, "-c", "requirements/constraints.txt", str(wheel))
        for verb in ("demo", "verify"):
            run(f"{folder}/env/bin/dialeval", verb, cwd=folder)
    version = subprocess.run([python, "-V"], check=True, capture_output=True, text=True)
    print(f"{version.stdout.strip()}: installed, demo and verify passed")


def run(*words: str, cwd: str | None = None) -> None:
    """Run a command; its failure is ours."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(words, check=False, cwd=cwd, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
