"""A language model behind an address that says how likely every token of a prompt is.

It is asked as OpenAI's older completions are: `echo` and `logprobs`, as vLLM and others answer them. One call
per continuation; that they begin alike is the server's to notice. A chat address does not do: it has no way
to say how likely words are that it did not choose.
"""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from dialeval.dialogues import Dialogue
from dialeval.errors import DataError
from dialeval.models.endpoint import Endpoint
from dialeval.models.likelihood import Answer, Question
from dialeval.models.templates import Spoken, Template, spoken

AT_ONCE = 4
_LETTERS = 3  # of a token, at least on average: how many letters surely fit into a window of tokens


@dataclass(frozen=True)
class EchoModel:
    """A completions address; what is sent is text, so marks that somebody typed are made harmless first."""

    endpoint: Endpoint

    @classmethod
    def at(cls, address: str) -> "EchoModel":
        """Take an address, with `#model` behind it where several are served."""
        place, _, model = address.partition("#")
        return cls(Endpoint(place, model=model or None))

    def answer(
        self,
        dialogue: Dialogue,
        questions: Sequence[Question],
        continuations: Sequence[str],
        template: Template,
        window: int,
    ) -> list[Answer]:
        """Ask for every continuation after every place."""
        turns = spoken(dialogue)
        jobs, cuts = [], []
        for question in questions:
            before, cut = _written(turns, question, template, window * _LETTERS)
            cuts.append(cut)
            jobs += [(before, template.lead + one) for one in continuations]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(lambda job: self._ask(*job), jobs))
        size = len(continuations)
        answers = []
        for number, cut in enumerate(cuts):
            some = found[number * size : (number + 1) * size]
            totals = np.array([total for total, _ in some], np.float32)
            answers.append(Answer(totals, tuple(count for _, count in some), cut))
        return answers

    def _ask(self, before: str, said: str) -> tuple[float, int]:
        body = {"prompt": before + said, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
        body |= {} if self.endpoint.model is None else {"model": self.endpoint.model}
        read = self.endpoint.post("/completions", body)
        try:
            found = json.loads(read)["choices"][0]["logprobs"]
            pairs = list(zip(found["text_offset"], found["token_logprobs"], strict=True))
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            raise self._useless() from None
        start, end = len(before), len(before) + len(said)
        values = [value for at, value in pairs if _inside(at, start, end)]
        if not values or not all(isinstance(one, float | int) and abs(one) < 1e9 for one in values):
            raise self._useless()
        return float(sum(values)), len(values)

    def _useless(self) -> DataError:
        return DataError(
            "does not say how likely the tokens of a prompt are (completions with echo and logprobs)",
            file=self.endpoint.address,
            fix="serve the model with vLLM, or name a GGUF file or hub:org/name",
        )


def _inside(at: Any, start: int, end: int) -> bool:
    return isinstance(at, int) and start <= at < end


def _written(
    turns: Sequence[Spoken], question: Question, template: Template, letters: int
) -> tuple[str, bool]:
    """Write the dialogue down up to a place, the newest turns first until the room is used up."""
    seen = [one for one in turns if question.turn is None or one.number <= question.turn]
    parts: list[str] = []
    cut = False
    for one in reversed(seen):
        text = template.opening(one.side) + template.lead + template.plain(one.text) + template.close
        if sum(map(len, parts)) + len(text) > letters:
            cut = True
            parts += [] if parts else [text[-letters:]]
            break
        parts.append(text)
    return template.begin + "".join(reversed(parts)) + template.opening(question.side), cut
