"""Users' feedback on replies and dialogues in a log as ratings of `human:user`."""

from collections.abc import Iterable

from dialeval.dialogues.dialogue import Dialogue
from dialeval.scores import Score, Scores

SOURCE = "human:user"


def feedback_scores(dialogues: Iterable[Dialogue]) -> Scores:
    """Return a row for each feedback value of a reply or a dialogue; its name is the dimension.

    >>> from dialeval.dialogues import Turn, dialogue
    >>> chat = dialogue([("user", "Hi"), Turn("assistant", "Hello", feedback={"thumbs": 1.0})], "d1")
    >>> [(row.turn, row.source, row.dimension, row.value) for row in feedback_scores([chat])]
    [(1, 'human:user', 'thumbs', 1.0)]
    """
    rows = []
    for dialogue in dialogues:
        rated = [(number, turn.feedback) for number, turn in enumerate(dialogue.turns) if turn.feedback]
        for turn, feedback in [*rated, (None, dialogue.feedback)]:
            for name, value in feedback.items():
                rows.append(Score(dialogue.id, turn, dialogue.system, SOURCE, name, float(value), None))
    return Scores.of(rows)
