"""For the API page of the site: what a docstring shows at a prompt is code."""

import re
from typing import Any

from griffe import Extension, Object

_PROMPT = re.compile(r"^( *)(>>> .*(?:\n.+)*)", re.MULTILINE)


class Doctests(Extension):
    """Puts doctests into fences."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = _PROMPT.sub(r"\1```pycon\n\1\2\n\1```", obj.docstring.value)
