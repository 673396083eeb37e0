"""The command line, `dialeval <command>`: one thin function per command."""

import io
import os
import sys
import warnings

from dialeval.errors import DialevalError


def main() -> None:
    """Run the command line: exit 0 fine, 1 bad data, 2 bad usage; never a stack trace for those."""
    try:
        _run()
    except KeyboardInterrupt:  # also one that comes while modules are imported
        sys.exit(130)


def _run() -> None:
    # Resampling is spread over threads of our own; threads below them would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from dialeval import files
    from dialeval.cli import output
    from dialeval.cli.app import app

    warnings.showwarning = lambda message, *_: output.say(message)
    if isinstance(sys.stdout, io.TextIOWrapper):  # which may be ASCII, or a Windows code page
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except DialevalError as error:
        output.say(f"dialeval: {error}")
        sys.exit(error.exit_code)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # else the reader of our output has gone: nobody to tell
            if not files.is_full(error):
                raise
            output.say(f"dialeval: standard output or a file of this program: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        output.say("dialeval: there is not enough memory")
        sys.exit(1)
