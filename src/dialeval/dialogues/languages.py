"""Names and codes of languages, and language identification.

A wrong language costs more than none: a dialogue in an unsupported language is not scored. So short texts
have no language, and a classification needs a clear margin.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from dialeval.dialogues.dialogue import Dialogue, takes_part
from dialeval.errors import DataError

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
    """Return the ISO 639-1 code of a language's name or code in a log; None if it is neither.

    >>> language_code("English"), language_code("pt-BR"), language_code("???")
    ('en', 'pt', None)
    """
    text = str(name or "").strip().lower().replace("_", "-")
    if text in _NAMES:
        return _NAMES[text]
    first = text.partition("-")[0]
    return first if len(first) in (2, 3) and first.isascii() and first.isalpha() else None


# Finding the language of a text

_LEAST = 0.9  # least probability of a language
_FEWEST = 20  # letters that a text needs; 6 in scripts with large alphabets
_MOST = 1500  # letters of a dialogue that are used
_ENGLISH = {
    "the", "you", "your", "what", "with", "that", "have", "this", "are", "would", "and", "for", "not", "it's",
}  # fmt: skip
_NOT_WORDS = re.compile(
    r"https?://\S+|[\w.+-]+@[\w-]+\.[\w.]+|`{3}.*?`{3}|`[^`]*`|[#@]\w+|\w*\d\w*", re.DOTALL
)


@lru_cache(maxsize=4096)
def language_of(text: str) -> str | None:
    """Return the language of a text (ISO 639-1); None if it is too short or the margin is small.

    Links, code, numbers and names with digits are left out. Plain English is recognised by its most frequent
    words; anything else is classified by py3langid.

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
    code, probability = _identifier().classify(plain)
    return str(code) if probability >= _LEAST else None


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    try:
        identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except OSError as error:  # it unpacks its model into a temporary file
        problem = f"the language identifier cannot be read: {error.strerror or error}"
        raise DataError(problem, file=MODEL_FILE, fix="make room where temporary files are") from None
    identifier.set_languages(sorted({*_NAMES.values()} & {str(code) for code in identifier.nb_classes}))
    return identifier


def dialogue_language(dialogue: Dialogue) -> str | None:
    """Return the language of a dialogue, from its log or its text; None if neither decides.

    >>> from dialeval.dialogues import dialogue
    >>> dialogue_language(dialogue([("user", "Bonjour, je voudrais changer mon adresse.")]))
    'fr'
    """
    if dialogue.language:
        return dialogue.language
    texts, size = [], 0
    for turn in dialogue.turns:
        if takes_part(turn):
            texts.append(turn.text[:_MOST])
            size += len(texts[-1])
        if size > _MOST:
            break
    return language_of("\n".join(texts))


def unknown_language(dialogue: Dialogue, languages: Collection[str]) -> str | None:
    """Return the language of a dialogue if it is not one of `languages`; None if it is, or is unknown."""
    language = dialogue_language(dialogue)
    return language if language is not None and language not in languages else None
