"""What starting costs: `import dialeval` and `dialeval --help`, beside a bare interpreter and a peer.

    python benchmarks/startup.py

Best of twenty fresh processes each, in turns; the time of a bare interpreter is taken off. The peer is
sacrebleu, known for its light start.
"""

import subprocess
import sys
import time

CASES = {
    "python -c pass": "pass",
    "import dialeval": "import dialeval",
    "import sacrebleu": "import sacrebleu",
    "dialeval --help": "import sys; sys.argv = ['dialeval', '--help']; from dialeval.cli import main; main()",
}


def seconds(code: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def main() -> None:
    best = dict.fromkeys(CASES, float("inf"))
    for _ in range(20):
        for name, code in CASES.items():
            best[name] = min(best[name], seconds(code))
    bare = best["python -c pass"]
    for name, found in best.items():
        print(f"{name:18} {1000 * found:6.0f} ms   {1000 * (found - bare):+6.0f} ms over a bare interpreter")
    ratio = (best["import dialeval"] - bare) / (best["import sacrebleu"] - bare)
    print(
        f"import dialeval costs {ratio:.0%} of import sacrebleu (wanted: under 150 ms; --help under 300 ms)"
    )


if __name__ == "__main__":
    main()
