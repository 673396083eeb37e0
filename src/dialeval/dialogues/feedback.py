"""What users said of replies and dialogues in a log, as the ratings they are: rows of `human:user`."""

from collections.abc import Iterable

from dialeval.dialogues.dialogue import Dialogue
from dialeval.scores import Score, Scores

SOURCE = "human:user"


def feedback_scores(dialogues: Iterable[Dialogue]) -> Scores:
    """Return a row for each thing that a user said of a reply or a dialogue; the name is the dimension.

    >>> from dialeval.dialogues import Turn, dialogue
    >>> chat = dialogue([("user", "Hi"), Turn("assistant", "Hello", feedback={"thumbs": 1.0})], "d1")
    >>> [(row.turn, row.source, row.dimension, row.value) for row in feedback_scores([chat])]
    [(1, 'human:user', 'thumbs', 1.0)]
    """
    rows = []
    for dialogue in dialogues:
        about = [(number, turn.feedback) for number, turn in enumerate(dialogue.turns) if turn.feedback]
        for turn, given in [*about, (None, dialogue.feedback)]:
            for name, value in given.items():
                rows.append(Score(dialogue.id, turn, dialogue.system, SOURCE, name, float(value), None))
    return Scores.of(rows)
