"""What a plain `pip install dialeval` can do, run in an environment that holds nothing else.

`make core` installs the built package into `.venv-core`, without any extra, and runs this file there:
no torch, no transformers, no faiss.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = "dialogues/examples/dialogues.jsonl"


def main() -> None:
    """Encode, score with the learned metrics, index, verify; all from the installed package."""
    for name in ("torch", "transformers", "faiss", "onnx", "pytest"):
        assert importlib.util.find_spec(name) is None, f"{name} is here: this environment proves nothing"
    import dialeval
    from dialeval.models.encoder import Encoder

    assert ".venv-core" in str(dialeval.__file__), dialeval.__file__
    one, other = Encoder.load().vectors(["Where is the station?", "How do I get to the station?"])
    assert abs(float(one @ other) - 0.79) < 0.01
    command = [str(Path(sys.executable).parent / "dialeval")]
    with tempfile.TemporaryDirectory() as folder:
        chats = Path(folder) / "chats.jsonl"
        said = [("user", "Hi"), ("assistant", "Hello, how are you?")]
        messages = [{"role": role, "content": content} for role, content in said]
        record = {"id": "d1", "messages": messages, "references": {"1": ["Hello, how is it going?"]}}
        chats.write_text(json.dumps(record) + "\n", encoding="utf-8")
        run = [*command, "score", str(chats), "-m", "bertscore", "-m", "similarity", "--json"]
        found = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
        values = {(row["source"], row["dimension"]): row["mean"] for row in found["scores"]}
        assert abs(values["bertscore", "f1"] - 0.75) < 0.01, values
        assert values["similarity", "user"] is not None, values
        subprocess.run([*command, "index", str(chats), "-o", f"{folder}/index"], check=True)
        study = [
            "annotate",
            str(chats),
            "--scheme",
            "turn-quality",
            "-o",
            f"{folder}/study",
            "--raters",
            "ann",
        ]
        refused = subprocess.run([*command, *study], check=False, capture_output=True, text=True)
        assert refused.returncode == 2 and "dialeval[serve]" in refused.stderr, refused.stderr
        logs = Path(dialeval.__file__).parent / "dialogues" / "examples" / "dialogues.jsonl"
        trained = ["train", "turn-quality", str(logs), "-o", f"{folder}/mine"]
        subprocess.run([*command, *trained], check=True)  # ridge regression: no torch
        scored = ["score", str(chats), "-m", f"turn-quality:model={folder}/mine"]
        subprocess.run([*command, *scored], check=True, capture_output=True)
    subprocess.run([*command, "models", "verify"], check=True)
    subprocess.run([*command, "verify"], check=True)
    print(
        "core install: encoding, bertscore, similarity, index, a trained ridge head and golden scores "
        "work without any extra"
    )


if __name__ == "__main__":
    main()
