"""Awkward input that every metric must take as data, not as an accident (promise R7)."""

from dialeval.dialogues import Dialogue, Turn, dialogue


def chat(name: str, *texts: str | None) -> Dialogue:
    speakers = ("user", "assistant")
    turns = [(speakers[number % 2], text) for number, text in enumerate(texts)]
    return dialogue(
        turns, name, system="bot", references={number: ["A reply."] for number in range(1, len(texts), 2)}
    )


CASES: dict[str, list[Dialogue]] = {
    "no dialogues": [],
    "no turns": [Dialogue("d", ())],
    "one turn": [chat("d", "Hi")],
    "empty text": [chat("d", "", "")],
    "blank text": [chat("d", "   ", " \t\n ")],
    "null text": [chat("d", None, None)],
    "one token": [chat("d", "Hi", "x")],
    "100,000 characters": [chat("d", "Hi", "word " * 20_000)],
    "100,000 characters without a blank": [chat("d", "Hi", "x" * 100_000)],
    # What is said comes again, so that the number of turns is what is tried, not the speed of an encoder.
    "10,000 turns": [chat("d", *(f"This is turn {number % 97} of very many." for number in range(10_000)))],
    "emoji": [chat("d", "😀", "👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷")],
    "right to left": [chat("d", "שלום", "مرحبا \u202eabc\u202c")],
    "NUL and controls": [chat("d", "a\x00b", "\x00\x01\x1b[31m\x7f")],
    "lone surrogate": [chat("d", "\ud800", "a\udfffb")],
    "line and paragraph separators": [chat("d", "a\u2028b", "a\u2029b\u0085c")],
    "only punctuation": [chat("d", "?!", "... --- ...")],
    "no blanks between words": [chat("d", "你好吗", "我很好谢谢你呢")],
    "duplicate ids": [chat("d", "Hi", "Hello"), chat("d", "Hi", "Hello")],
    "same speaker twice": [
        dialogue([("user", "Hi"), ("user", "You?"), ("assistant", "I"), ("assistant", "am")], "d")
    ],
    "two people": [dialogue([("A", "Hi"), ("B", "Hello"), ("A", "Bye")], "d")],
    "assistant only": [dialogue([("assistant", "Hi"), ("assistant", "Still here")], "d")],
    "tool and system messages": [
        Dialogue(
            "d",
            (
                Turn("system", "Be kind"),
                Turn("user", "Hi"),
                Turn("tool", "", {"content": "22"}),
                Turn("assistant", "22!"),
            ),
        )
    ],
    "unknown speaker": [dialogue([("", "Hi"), ("unknown", "Hello")], "d")],
    "empty reference": [dialogue([("user", "Hi"), ("assistant", "Hello")], "d", references={1: ["", " "]})],
    "reference to nothing": [dialogue([("user", "Hi"), ("assistant", "Hello")], "d", references={7: ["x"]})],
    "odd names": [dialogue([("user", "Hi"), ("assistant", "Hello")], "=1+1\n|,\"'", system="<b>|%")],
}
