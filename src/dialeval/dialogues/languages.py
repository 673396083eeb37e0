"""Names and codes of languages, and which language a text is in.

A wrong guess costs more than none: a dialogue taken for a foreign one is not scored. So short texts have no
language, and a guess needs a clear margin.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from dialeval.dialogues.dialogue import Dialogue, takes_part

_NAMES = {
    "arabic": "ar", "bengali": "bn", "bulgarian": "bg", "catalan": "ca", "chinese": "zh", "croatian": "hr",
    "czech": "cs", "danish": "da", "dutch": "nl", "english": "en", "estonian": "et", "finnish": "fi",
    "french": "fr", "german": "de", "greek": "el", "hebrew": "he", "hindi": "hi", "hungarian": "hu",
    "indonesian": "id", "italian": "it", "japanese": "ja", "korean": "ko", "latvian": "lv",
    "lithuanian": "lt", "malay": "ms", "norwegian": "no", "persian": "fa", "polish": "pl",
    "portuguese": "pt", "romanian": "ro", "russian": "ru", "serbian": "sr", "slovak": "sk", "slovene": "sl",
    "slovenian": "sl", "spanish": "es", "swahili": "sw", "swedish": "sv", "tamil": "ta", "telugu": "te",
    "thai": "th", "turkish": "tr", "ukrainian": "uk", "urdu": "ur", "vietnamese": "vi", "welsh": "cy",
}  # fmt: skip


def language_code(name: object) -> str | None:
    """Return the ISO 639-1 code that a log means by a name or code; None if it means none.

    >>> language_code("English"), language_code("pt-BR"), language_code("???")
    ('en', 'pt', None)
    """
    text = str(name or "").strip().lower().replace("_", "-")
    if text in _NAMES:
        return _NAMES[text]
    first = text.partition("-")[0]
    return first if len(first) in (2, 3) and first.isascii() and first.isalpha() else None


# Finding the language of a text

_LEAST = 0.9  # probability below which the language of a text counts as unknown
_FEWEST = 20  # letters of a text whose language is looked for; of scripts with large alphabets, 6
_MOST = 1500  # letters of a dialogue that are looked at
_ENGLISH = frozenset(
    (
        "the",
        "you",
        "your",
        "what",
        "with",
        "that",
        "have",
        "this",
        "are",
        "would",
        "and",
        "for",
        "not",
        "it's",
    )
)
_NOT_WORDS = re.compile(
    r"https?://\S+|[\w.+-]+@[\w-]+\.[\w.]+|`{3}.*?`{3}|`[^`]*`|[#@]\w+|\w*\d\w*", re.DOTALL
)


@lru_cache(maxsize=4096)
def language_of(text: str) -> str | None:
    """Return the language of a text (ISO 639-1), None where it is too short to tell or the margin is small.

    Links, code, numbers and names with digits are left out. Plain English is known by its most frequent
    words; for anything else py3langid is asked, which carries its model.

    >>> language_of("Where is my parcel? It should have come yesterday.")
    'en'
    >>> language_of("Wo ist mein Paket? Es sollte gestern schon kommen."), language_of("Ok, thanks")
    ('de', None)
    """
    plain = _NOT_WORDS.sub(" ", text[: 4 * _MOST])[:_MOST]
    letters = sum(map(str.isalpha, plain))
    wide = sum(letter > "\u2e7f" for letter in plain)
    if letters < _FEWEST and wide < 6:
        return None
    words = plain.lower().split()
    frequent = [word.strip(".,!?;:\"'()") for word in words]
    hits = [word for word in frequent if word in _ENGLISH]
    if plain.isascii() and len(words) >= 8 and len(set(hits)) >= 3 and len(hits) >= len(words) / 8:
        return "en"
    code, share = _identify(plain)
    return code if share >= _LEAST else None


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    made = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    made.set_languages(sorted({*_NAMES.values()} & {str(one) for one in made.nb_classes}))
    return made


def _identify(text: str) -> tuple[str, float]:
    code, share = _identifier().classify(text)
    return str(code), float(share)


def dialogue_language(dialogue: Dialogue, speaker: str | None = None) -> str | None:
    """Return the language of a dialogue, as its log says or as its text is; None where that cannot be told.

    Args:
        dialogue: A dialogue.
        speaker: Whose turns to look at, by default everybody's who takes part.

    >>> from dialeval.dialogues import dialogue
    >>> dialogue_language(dialogue([("user", "Bonjour, je voudrais changer mon adresse.")]))
    'fr'
    """
    if dialogue.language and speaker is None:
        return dialogue.language
    said, size = [], 0
    for turn in dialogue.turns:
        if takes_part(turn) and (speaker is None or turn.speaker == speaker):
            said.append(turn.text[:_MOST])
            size += len(said[-1])
        if size > _MOST:
            break
    return language_of("\n".join(said))


def unknown_language(dialogue: Dialogue, known: Collection[str]) -> str | None:
    """Return the language of a dialogue that is not among those known; None if it is, or cannot be told."""
    found = dialogue_language(dialogue)
    return found if found is not None and found not in known else None
