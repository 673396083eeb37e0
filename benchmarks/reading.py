"""Reading a gigabyte of chat JSONL: speed as a share of msgspec decoding alone, and memory.

    python benchmarks/reading.py [--megabytes 1000]

Writes a log of invented chats to a temporary file, then in turns: msgspec decoding of each line into plain
dictionaries (the peer), and `dialeval.read`, each three times. Memory is the peak resident size of a fresh
process after a tenth of the file and after all of it.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = (
    "the",
    "a",
    "we",
    "you",
    "train",
    "hotel",
    "coffee",
    "like",
    "tomorrow",
    "maybe",
    "book",
    "table",
    "six",
)


def write_log(path: Path, megabytes: int) -> int:
    draw = random.Random(1)
    sentences = [" ".join(draw.choices(WORDS, k=draw.randint(3, 25))).capitalize() + "." for _ in range(5000)]
    written = count = 0
    with path.open("w") as file:
        while written < megabytes * 1_000_000:
            turns = draw.randint(4, 24)
            messages = [
                {"role": ("user", "assistant")[n % 2], "content": draw.choice(sentences)}
                for n in range(turns)
            ]
            line = json.dumps({"id": f"chat-{count}", "system": "bot", "messages": messages}) + "\n"
            file.write(line)
            written, count = written + len(line), count + 1
    return count


def decode_alone(path: str, limit: int) -> int:
    import msgspec

    decode = msgspec.json.Decoder().decode
    count = 0
    with open(path, "rb") as file:  # noqa: PTH123
        for count, line in enumerate(file, 1):
            decode(line)
            if count == limit:
                break
    return count


def read(path: str, limit: int) -> int:
    from dialeval.dialogues.formats import read as read_dialogues

    count = 0
    for count, _ in enumerate(read_dialogues(path), 1):
        if count == limit:
            break
    return count


def measure(how: str, path: Path, limit: int) -> tuple[float, float]:
    """Run in a process of its own; return seconds and peak megabytes."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", how, str(path), str(limit)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)


def child(how: str, path: str, limit: str) -> None:
    function = {"decode": decode_alone, "read": read}[how]
    function(path, 100)  # imports and warm-up
    begin = time.perf_counter()
    function(path, int(limit))
    print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--child", nargs=3)
    arguments = parser.parse_args()
    if arguments.child:
        child(*arguments.child)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        count = write_log(path, arguments.megabytes)
        size = path.stat().st_size / 1e6
        print(f"{count:,} dialogues, {size:,.0f} MB")
        times: dict[str, list[float]] = {"decode": [], "read": []}
        for _ in range(3):
            for how, found in times.items():
                found.append(measure(how, path, count + 1)[0])
        best = {how: min(found) for how, found in times.items()}
        for how, seconds in best.items():
            print(f"{how:8} {size / seconds:8.0f} MB/s   (best of 3: {seconds:.2f} s)")
        print(
            f"read / decode alone: {best['decode'] / best['read']:.0%} of its speed (wanted: at least 60 %)"
        )
        tenth, whole = (measure("read", path, limit)[1] for limit in (count // 10, count + 1))
        print(
            f"peak memory: {tenth:.0f} MB after a tenth, {whole:.0f} MB after all: "
            f"{whole / tenth - 1:+.1%} (wanted: within 10 %)"
        )


if __name__ == "__main__":
    main()
