"""The few ways dialeval says no.

Every message names the place (file, line, field) and what to do about it. The command line turns a
`DataError` into exit code 1 and a `UsageError` into exit code 2; neither ever shows a stack trace.
"""


class DialevalError(Exception):
    """Anything dialeval refuses to do, with a message meant for a person."""

    exit_code = 1


class DataError(DialevalError):
    """Something is wrong with data: a file, a line, a field, a hash.

    >>> str(DataError("not a list", file="chats.jsonl", line=3, field="messages", fix="see docs/formats.md"))
    'chats.jsonl:3: messages: not a list (see docs/formats.md)'
    """

    def __init__(
        self,
        message: str,
        *,
        file: object = None,
        line: int | None = None,
        field: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.file, self.line, self.field, self.fix = file, line, field, fix
        place = "" if file is None else f"{file}:{line}: " if line is not None else f"{file}: "
        what = f"{field}: {message}" if field else message
        super().__init__(f"{place}{what}" + (f" ({fix})" if fix else ""))


class BusyError(DataError):
    """Another process holds the lock of what is asked for."""


class UsageError(DialevalError):
    """A call or a command line that cannot be understood."""

    exit_code = 2
