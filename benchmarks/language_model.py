"""Follow-ups after a dialogue: one pass with a tree of follow-ups, against llama.cpp reading each by itself.

Needs `dialeval models pull smollm2-135m-instruct` and xllamacpp. Times are of the processor, one thread
each, the same weights.
"""

import argparse
import time

import xllamacpp

from dialeval.jobs.demo import example_dialogues
from dialeval.metrics import build
from dialeval.metrics.followup import load_sets
from dialeval.models.language_model import DEFAULT, _weights, open_model
from dialeval.models.likelihood import Position, spoken, templates


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dialogues", type=int, default=3)
    count = parser.parse_args().dialogues
    chats, template = example_dialogues()[:count], templates()["chatml"]
    one = load_sets("followups")["quality"]
    said = one.positive + one.negative
    model = open_model(DEFAULT)
    model.answer(chats[-1], [Position(None, "user")], said[:1], template, 1024)  # loaded, warm

    start = time.process_time()
    build("followup:level=dialogue").score(chats)
    ours = time.process_time() - start

    settings = xllamacpp.CommonParams()
    settings.model.path = str(_weights(DEFAULT)[0])
    settings.n_ctx, settings.n_parallel, settings.verbosity = 2048, 1, -1
    settings.cpuparams.n_threads = 1
    server = xllamacpp.Server(settings)
    start = time.process_time()
    for chat in chats:
        before = template.begin + "".join(
            template.opening(turn.side) + turn.text + template.close for turn in spoken(chat)
        )
        for text in said:  # the server keeps what the last question began with
            server.handle_completions(
                {"prompt": before + template.opening("user") + text, "n_predict": 1, "cache_prompt": True}
            )
    theirs = time.process_time() - start
    print(f"dialogues: {count}, follow-ups: {len(said)}")
    print(f"one pass with a tree: {ours / count:.2f} s a dialogue")
    print(f"llama.cpp, one call each: {theirs / count:.2f} s a dialogue, {theirs / ours:.1f} times as long")


if __name__ == "__main__":
    main()
