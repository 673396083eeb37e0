"""Build a release and check what was built: `make release`.

Wheel and sdist are built into dist/. Their contents are looked at: licences are in, no data set is, and
neither is larger than 60 MB. The wheel is installed in a fresh environment of every Python at hand, on the
PATH or in pyenv, where `demo` and `verify` run. SHA256SUMS is written last; if SIGNING_KEY names an ssh key,
it is signed by `ssh-keygen -Y sign`, and the signature verified as a user would.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

from packaging.specifiers import SpecifierSet

DIST = Path("dist")
LARGEST = 60_000_000
SIGNER = "dialeval"
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
        sign(DIST / "SHA256SUMS", key)
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
    """Return the newest Python at hand of every minor version that `requires-python` allows."""
    allowed = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    at_hand = [shutil.which(f"python3.{minor}") for minor in range(20)]
    at_hand += map(str, root.glob("versions/3.*/bin/python3"))
    found: dict[tuple[int, ...], tuple[tuple[int, ...], str]] = {}
    for one in filter(None, at_hand):
        if (version := version_of(one)) and SpecifierSet(allowed).contains(version):
            number = tuple(map(int, version.split(".")))
            found[number[:2]] = max(found.get(number[:2], ((), "")), (number, one))
    return [one for _, one in sorted(found.values())]


def version_of(python: str) -> str | None:
    """Return the version of a Python that starts and can make environments; None for pyenv's idle shims."""
    code = "import ssl, sys, venv; print(*sys.version_info[:3], sep='.')"
    done = subprocess.run([python, "-c", code], check=False, capture_output=True, text=True)
    return None if done.returncode else done.stdout.strip()


def try_wheel(python: str, wheel: Path) -> None:
    """Install the wheel in a fresh environment, and run the demo and `verify` there."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", f"{folder}/env")
        pip = (f"{folder}/env/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
        run(*pip, "-c", "requirements/constraints.txt", str(wheel))
        for verb in ("demo", "verify"):
            run(f"{folder}/env/bin/dialeval", verb, cwd=folder)
    took = time.monotonic() - start
    print(f"Python {version_of(python)}: installed, demo and verify passed, {took:.0f} s", flush=True)


def sign(path: Path, key: str) -> None:
    """Sign a file by an ssh key, the private one or the public one of an agent, and verify the signature."""
    run("ssh-keygen", "-Y", "sign", "-f", key, "-n", SIGNER, str(path))
    public = Path(key.removesuffix(".pub") + ".pub").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        signers = Path(folder, "allowed_signers")
        signers.write_text(f"{SIGNER} {public}", encoding="utf-8")
        verify(path, signers)


def verify(path: Path, signers: Path) -> None:
    """Verify the signature beside a file, by the command of SECURITY.md."""
    words = ("-Y", "verify", "-f", str(signers), "-I", SIGNER, "-n", SIGNER, "-s", f"{path}.sig")
    run("ssh-keygen", *words, given=path.read_text(encoding="utf-8"))


def run(*words: str, cwd: str | None = None, given: str = "") -> None:
    """Run a command; its failure is ours."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        words, check=False, cwd=cwd, capture_output=True, text=True, env=environment, input=given
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
