"""Set the thresholds of `dialeval-fault-reader` on good replies of scenarios that it was not trained on.

    python weights/set_fault_thresholds.py

`dialeval train faults` does the same at its end. The shipped reader was trained before 256 of the scenarios
were written: their good replies, and those of the tenth that was held out, decide from which probability on a
fault counts. Nothing else of the reader changes.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from dialeval.dialogues import formats
from dialeval.manifests import SUMS, write_sums
from dialeval.models.artefact import CONFIG
from dialeval.models.fault_features import reply_features
from dialeval.models.fault_reader import FaultReader
from dialeval.models.fault_weights import set_thresholds, weight_fields
from dialeval.training.fault_examples import held_out_scenarios

SOURCE = Path(__file__).parent.parent / "src" / "dialeval"
SHIPPED = SOURCE / "models" / "shipped" / "dialeval-fault-reader"
LATER = ("learn-m", "learn-p", "learn-r")
"""How the ids of scenarios begin that were written after the reader was trained."""


def good_replies(reader: FaultReader) -> Iterator[Mapping[str, float]]:
    """Yield the features of good replies that the reader has not seen."""
    scenarios = {scenario.id: scenario for scenario in held_out_scenarios()}
    every = formats.read(SOURCE / "training" / "faults.jsonl")
    scenarios |= {scenario.id: scenario for scenario in every if scenario.id.startswith(LATER)}
    for _, replies in reply_features(reader, list(scenarios.values())):
        yield from (reply.values for reply in replies)


def main() -> None:
    """Write the thresholds into the artefact, and its checksums anew."""
    reader = FaultReader.load(SHIPPED)
    good = list(good_replies(reader))
    config = json.loads((SHIPPED / CONFIG).read_text(encoding="utf-8"))
    config["weights"] = weight_fields(set_thresholds(reader.weights, good))
    text = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (SHIPPED / CONFIG).write_text(text, encoding="utf-8")
    (SHIPPED / SUMS).unlink()
    write_sums(SHIPPED)
    print(f"{len(good)} good replies")
    for fault, fields in config["weights"].items():
        print(f"{fault}\t{fields['threshold']}")


if __name__ == "__main__":
    main()
