"""A small bot that cancels orders, and a newer version of it that no longer knows long order numbers."""

import re
from typing import Any


def answer(messages: list[dict[str, str]], order: str = r"\b[A-Z]\d+\b") -> str | list[dict[str, Any]]:
    said = [one["content"] for one in messages if one["role"] == "user"]
    asked = messages[-2]["content"] if len(messages) > 1 else ""
    found = re.findall(order, " ".join(said))
    if not found:
        return "What is your order number?"
    if "Shall I" not in asked:
        return f"Shall I cancel order {found[-1]}?"
    call = {"id": "c1", "function": {"name": "cancel_order", "arguments": {"order": found[-1]}}}
    return [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "assistant", "content": f"Order {found[-1]} has been cancelled."},
    ]


def newer(messages: list[dict[str, str]]) -> str | list[dict[str, Any]]:
    return answer(messages, order=r"\b[A-Z]\d\d\b")
