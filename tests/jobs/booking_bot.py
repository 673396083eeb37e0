"""A bot that books tables and taxis, and fifty users of it with several facts, wishes and questions.

`python tests/jobs/booking_bot.py > bookings.toml` writes the scenarios.
"""

import re

SLOTS = {
    "table": {"day": r"(?:mon|tues|wednes|thurs|fri|satur|sun)day", "time": r"\d\d:\d\d", "people": r"\d\b"},
    "taxi": {"destination": r"(?:station|museum|airport|hotel)"},
}
PLACES = ("station", "museum", "airport")
MOODS = ("neutral", "friendly", "impatient", "terse", "chatty")
FOOD = ("an Indian", "a cheap Italian", "a Chinese", "a nice British", "a Thai")
QUESTIONS = (
    "What is the address, please?",
    "Can I have the phone number too?",
    "Could you tell me the postcode?",
)


def answer(messages: list[dict[str, str]]) -> str:
    """Ask for what is missing, one slot a turn; misread every seventh user's second turn."""
    said = [one["content"] for one in messages if one["role"] == "user"]
    heard = [one["content"] for one in messages if one["role"] == "assistant"]
    if re.search(r"address|phone|postcode", said[-1]):
        return "It is 12 Mill Road, CB1 2AD, telephone 01223 351880."
    if len(said) == 2 and sum(map(len, said)) % 7 == 0:
        return "There are many museums in the centre of town."
    task = "taxi" if any("taxi" in text for text in said) else "table"
    text = " ".join(said).lower()
    for name, shape in SLOTS[task].items():
        if not re.search(shape, text):
            return f"Certainly. What {name} would you like for your {task}?"
    if f"shall i book the {task}" not in " ".join(heard[-2:]).lower():
        return f"I have found one. Shall I book the {task} for you?"
    return f"Your {task} is booked, the reference number is {task[:2].upper()}41."


def scenarios(count: int = 50) -> str:
    """Write users as TOML: each third wants a taxi too, and each has up to two questions."""
    lines = ["turns = 14"]
    for number in range(count):
        day = ("Friday", "Sunday", "Tuesday", "Saturday")[number % 4]
        area = ("centre", "north")[number % 2]
        asks = [QUESTIONS[(number + place) % 3] for place in range(number % 3)]
        lines += [
            f"[scenario.guest-{number:02}]",
            f'goal = "book a table at {FOOD[number % 5]} restaurant in the {area} of town"',
            'reworded = ["find a restaurant and book a table there"]',
            f'mood = "{MOODS[number % 5]}"',
            f'facts = {{ day = "{day}", time = "1{number % 9}:{15 * (number % 4):02}", '
            f'people = "{1 + number % 8}", destination = "the {PLACES[number % 3]}" }}',
            'done = ["is booked"]',
            f"questions = {asks}".replace("'", '"'),
        ]
        if number % 3 == 0:
            lines.append('then = ["I will also need a taxi to get there. Can you book one for me?"]')
    return "\n".join(lines)


if __name__ == "__main__":
    print(scenarios())
