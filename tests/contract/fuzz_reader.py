"""A coverage-guided fuzzer on one reader: `python fuzz_reader.py READER CORPUS [options of libFuzzer]`.

Only `DialevalError` may come out of a reader; anything else ends the run with the input that did it kept in a
file. Inputs are changed by libFuzzer and by `mutation`, which knows what JSON, tables and weights look like.
"""

import random
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))
_INSTRUMENTED = ["dialeval", "tomllib", "zipfile", "gzip"]


def main() -> None:
    name, rest = sys.argv[1], sys.argv[2:]
    with atheris.instrument_imports(include=_INSTRUMENTED):
        import readers
        import specimens

        from dialeval.errors import DialevalError

        reader = readers.READERS[name]
        place = Path(tempfile.mkdtemp(dir=specimens.memory())) / reader.file
        for seed in reader.seeds():  # what is good is read; what is imported on the way is watched, too
            place.write_bytes(seed)
            reader.read(place)

    def try_one(data: bytes) -> None:
        place.write_bytes(data)
        try:
            reader.read(place)
        except DialevalError as error:
            str(error)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a library is no Exception, and no message either
            raise RuntimeError(f"{name}: {type(error).__name__}: {error}") from error

    def change(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        return reader.mutate(data, chance)[:most] if chance.random() < 0.6 else atheris.Mutate(data, most)

    atheris.Setup([sys.argv[0], *rest], try_one, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
