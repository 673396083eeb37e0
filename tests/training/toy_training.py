"""Tiny encoders in the shape of the Hub, toy data, and a run that a test can kill.

As a program, `python toy_training.py KIND FOLDER`, it trains one network (`pair` or `vector`), says each step
on standard output, and ends with a line of JSON: the loss, the dev figures and a hash of the weights. With
numbers after that, it does so in child processes and kills each after so many steps.
"""

import contextlib
import io
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from dialeval.training import (
    Head,
    PairExample,
    PairNetwork,
    Trained,
    TrainingSettings,
    VectorExample,
    VectorNetwork,
    fit,
)
from dialeval.training.loop import network_hash

GOOD = ["that sounds lovely", "the train leaves at nine", "you can change in rome", "glad to help you"]
BAD = ["banana", "no no no no", "what what", "i am a teapot"]
ASKED = ["how do i get to rome", "when is the next train", "thank you very much", "i like old trains a lot"]
HEADS = (
    Head("quality", "regression"),
    Head("stop", "binary", weight=0.5),
    Head("act", "classes", ("answer", "noise", "other")),
)


def make_tokenizer(family: str):
    """Words for BERT, bytes for RoBERTa. Not trained: the library's trainers order ties by chance."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    if family == "roberta":
        special = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
        pieces = sorted(pre_tokenizers.ByteLevel.alphabet())
        merges = [("t", "h"), ("th", "e"), ("a", "i"), ("\u0120", "t")]
        pieces += [left + right for left, right in merges]
        vocabulary = {piece: number for number, piece in enumerate([*special.values(), *pieces])}
        made = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>"))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    else:
        special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
        words = sorted({word for text in (*GOOD, *BAD, *ASKED) for word in text.split()})
        vocabulary = {piece: number for number, piece in enumerate([*special.values(), *words])}
        made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    return made, {f"{name}_token": token for name, token in special.items()}


def make_encoder(folder: Path, family: str = "bert") -> Path:
    """Save a random encoder of two layers with its tokenizer, as `save_pretrained` does."""
    import torch
    import transformers

    tokenizer, special = make_tokenizer(family)
    sizes = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    with torch.random.fork_rng(), contextlib.redirect_stderr(io.StringIO()):
        torch.manual_seed(1)
        if family == "roberta":
            config = transformers.RobertaConfig(**sizes, max_position_embeddings=50, type_vocab_size=1)
            model = transformers.RobertaModel(config)
        elif family == "distilbert":
            config = transformers.DistilBertConfig(
                vocab_size=sizes["vocab_size"], dim=32, n_layers=2, n_heads=2, hidden_dim=64
            )
            model = transformers.DistilBertModel(config)
        else:
            model = transformers.BertModel(transformers.BertConfig(**sizes, max_position_embeddings=48))
        for weight in model.parameters():  # a random encoder of spread .02 is nearly blind to its input
            weight.data *= 8 if weight.ndim > 1 else 1
        model.save_pretrained(folder)
        transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    return folder


def pair_examples(count: int, seed: int = 0) -> list[PairExample]:
    """Good answers and noise, some of the labels missing."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        history = tuple(chance.choice(ASKED + GOOD) for _ in range(chance.randint(0, 5)))
        good = chance.random() < 0.5
        response = " ".join(chance.choice(GOOD if good else BAD) for _ in range(chance.randint(1, 3)))
        targets = {"quality": 1.0 if good else -1.0, "stop": float(not good), "act": 0 if good else 1}
        kept = {name: value if chance.random() < 0.8 else None for name, value in targets.items()}
        made.append(PairExample(history, response, kept, weight=chance.choice([1.0, 0.5])))
    return made


def vector_examples(count: int, seed: int = 0) -> list[VectorExample]:
    """Features of different sizes, one of them constant; the first three tell."""
    chance = np.random.default_rng(seed)
    features = chance.normal(size=(count, 8)) * [1, 10, 100, 1, 1, 1, 1, 0] + [0, 5, -300, 0, 0, 0, 0, 7]
    hidden = features[:, 0] + features[:, 1] / 10 + features[:, 2] / 100
    return [
        VectorExample(row, {"quality": float(value), "stop": float(value > 2), "act": int(value > 2)})
        for row, value in zip(features, hidden, strict=True)
    ]


SETTINGS = {
    "pair": TrainingSettings(
        batch=4,
        accumulate=2,
        epochs=3,
        learning_rate=6e-3,
        warmup=0.1,
        weight_decay=0.01,
        evaluate_every=5,
        save_every=3,
        max_length=32,
        seed=3,
        group=4,
        threads=1,
    ),
    "vector": TrainingSettings(
        batch=16, epochs=4, learning_rate=1e-2, evaluate_every=7, save_every=5, dropout=0.2, seed=3, threads=1
    ),
}


def network_of(kind: str, folder: Path, settings: TrainingSettings):
    if kind == "vector":
        return VectorNetwork.fitting(vector_examples(200), HEADS, settings, hidden=(16, 8))
    return PairNetwork(folder / "encoder", HEADS, settings)


def data_of(kind: str):
    make = vector_examples if kind == "vector" else pair_examples
    count = 200 if kind == "vector" else 100
    return make(count), make(60, seed=1)


def run(kind: str, home: Path, settings: TrainingSettings | None = None, **more):
    """Train the toy; returns the network as well."""
    settings = settings or SETTINGS[kind]
    train, dev = data_of(kind)
    network = network_of(kind, home, settings)
    more = {"folder": home / "run", "figure": "spearman:quality"} | more
    return network, fit(network, train, dev, settings, **more)


def summary(network, trained: Trained) -> dict:
    """All that must be equal however often a run was killed."""
    return {
        "loss": trained.loss,
        "steps": trained.steps,
        "best": [trained.best_step, trained.best_figure],
        "history": [[look.step, look.epoch, look.loss, look.figure] for look in trained.history],
        "weights": network_hash(network),
    }


def train_aloud(kind: str, home: Path) -> None:
    result = run(kind, home, on_step=lambda step: print(step.step, flush=True))
    print(json.dumps(summary(*result)), flush=True)


def kill(kind: str, home: Path, steps: int, wait: float) -> None:
    """Let a run make some steps in a process of its own, then kill it; say how far it came."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        train_aloud(kind, home)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        reached = [int(told.readline()) for _ in range(steps)][-1]
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(reached, ended == -signal.SIGKILL, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        import torch._dynamo  # noqa: F401  # what a first step imports: once, not in every process

        for number in sys.argv[3:]:
            kill(sys.argv[1], Path(sys.argv[2]), int(number), 0.01)
    else:
        train_aloud(sys.argv[1], Path(sys.argv[2]))
