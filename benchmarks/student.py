r"""A student beside its teacher: what it keeps of the teacher's correlation with people, and how fast it is.

    python benchmarks/student.py [--teacher followup] [--student student] [--sets fed conture] [--timed 12]
    python benchmarks/student.py --teacher floweval:corpus=dailydialog --levels \
        --student student:model=dialeval-consensus-student --sets controllable fed conture convai2-wild dstc9

Speed: time of the processor for the same dialogues, each metric in a process of its own with an empty cache,
models loaded and one dialogue scored before the clock starts. What the teacher says of the sets is taken from
the cache where it is there, so a second run is quick. Pearson / Spearman, 95 % bootstrap over dialogues.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

from dialeval.dialogues import Dialogue
from dialeval.dialogues.datasets import public_set
from dialeval.dialogues.splits import portion
from dialeval.metrics import build
from dialeval.scores import Scores
from dialeval.studies import study


def rated(name: str, level: str, limit: int | None) -> tuple[list[Dialogue], Scores, str] | None:
    """Return dialogues of the test portion with ratings of a level, the ratings and their dimension."""
    chosen = public_set(name)
    gold = next((one for one in chosen.golds if one.level == level), None)
    if gold is None:
        return None
    ratings = chosen.ratings().where(level=level, dimension=gold.dimension)
    known = {row.dialogue_id for row in ratings}
    return [one for one in portion(name, "test") if one.id in known][:limit], ratings, gold.dimension


def measure(name: str, level: str, options: argparse.Namespace) -> None:
    found = rated(name, level, options.limit)
    if found is None:
        return
    dialogues, ratings, dimension = found
    teacher = f"{options.teacher}{',' if ':' in options.teacher else ':'}level={level}"
    asked = teacher if options.levels else options.teacher
    wanted = {(row.dialogue_id, row.turn) for row in ratings}
    only = [
        Dialogue(one.id, one.turns, one.system, meta={"scored": sorted(t for i, t in wanted if i == one.id)})
        if level == "turn"
        else one
        for one in dialogues
    ]
    metrics = {"teacher": build(asked), "student": build(options.student)}
    scores = [
        made.score(only).renamed(source).where(level=level, dimension=made.dimensions[0])
        for source, made in metrics.items()
    ]
    kept = {one.id for one in dialogues}
    people = Scores.of([row for row in ratings if row.dialogue_id in kept], {})
    result = study(
        Scores.concat([*scores, people]),
        level=level,
        dimension=dimension,
        resamples=options.resamples,
        permutations=1,
    ).to_dict()
    print(f"\n## {name}, {level}s of {len(dialogues)} dialogues")
    values = {}
    for row in result["correlations"]:
        values[row["label"]] = [row[method]["value"] for method in ("pearson", "spearman")]
        print(f"{row['label']}\t{row['n']}\t{shown(row['pearson'])}\t{shown(row['spearman'])}")
    kept_shares = [f"{own / its:.2f}" for own, its in zip(values["student"], values["teacher"], strict=True)]
    print(f"kept\t{' / '.join(kept_shares)}")


def shown(estimate: dict) -> str:
    return f"{estimate['value']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"


def clock(spec: str, count: int) -> float:
    """Return seconds of the processor that a metric takes for some dialogues of FED, in this process."""
    made, dialogues = build(spec), list(portion("fed", "test"))[: count + 1]
    made.score(dialogues[:1])
    start = time.process_time()
    made.score(dialogues[1:])
    return time.process_time() - start


def seconds(spec: str, count: int) -> float:
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, __file__, "--clock", spec, "--timed", str(count)]
        done = subprocess.run(
            command, env={**os.environ, "DIALEVAL_CACHE": empty}, capture_output=True, text=True, check=True
        )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teacher", default="followup")
    parser.add_argument("--student", default="student")
    parser.add_argument("--sets", nargs="*", default=["fed", "conture"])
    parser.add_argument(
        "--levels", nargs="*", default=["turn", "dialogue"], help="none: the teacher has no such field"
    )
    parser.add_argument("--limit", type=int, help="dialogues of each set, the first ones")
    parser.add_argument("--timed", type=int, default=12, help="dialogues to take the time with; 0: none")
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--clock", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.clock:
        print(clock(options.clock, options.timed))
        return
    if options.timed:
        slow, fast = (seconds(spec, options.timed) for spec in (options.teacher, options.student))
        print(
            f"{options.timed} dialogues: teacher {slow:.2f} s, student {fast:.3f} s, {slow / fast:.0f} times"
        )
    for name in options.sets:
        for level in options.levels or ["dialogue"]:
            measure(name, level, options)


if __name__ == "__main__":
    main()
