"""Where `--system` becomes a system: an address, a function, or one of ours by name."""

from typing import Any

from dialeval.errors import UsageError
from dialeval.models.endpoint import Endpoint
from dialeval.systems.system import System

NAMES = ("retrieval", "wizard-max-voted", "wizard-random")
_OPTIONS: dict[str, dict[str, type]] = {
    "retrieval": {"corpus": str, "window": int, "encoder": str},
    "wizard-max-voted": {"votes": str},
    "wizard-random": {"votes": str, "seed": int},
}


def build(
    spec: str,
    *,
    name: str | None = None,
    instructions: str | None = None,
    at_once: int | None = None,
    timeout: float | None = None,
    **asked: Any,
) -> System:
    """Make a system.

    Args:
        spec: `http://…` or `https://…`; `module:function`; or `retrieval`, `wizard-max-voted` or
            `wizard-random` with their options, as in `wizard-random:votes=votes.jsonl,seed=1`.
        name: What it is called; by default the model or the spec.
        instructions: A system prompt for an endpoint.
        at_once: How many replies of an endpoint may be under way.
        timeout: Seconds until a reply of a function, or a try at an endpoint, is given up; 60 if None.
        **asked: Other fields of an `Endpoint`.
    """
    if spec.startswith(("http://", "https://")):
        from dialeval.systems.remote import AT_ONCE, Remote

        given = {**asked, "timeout": timeout}
        endpoint = Endpoint(spec, **{key: value for key, value in given.items() if value is not None})
        return Remote(endpoint, name or endpoint.model or spec, instructions, at_once or AT_ONCE)
    own, _, options = spec.partition(":")
    others = {**asked, "instructions": instructions, "concurrency": at_once}
    wrong = [key for key, value in others.items() if value is not None]
    if wrong:
        raise UsageError(f"{wrong[0]} goes with an address, not with {spec}")
    if own in NAMES:
        if timeout is not None:
            raise UsageError(f"timeout goes with an address or a function, not with {spec}")
        return _ours(own, options, name or own)
    if ":" in spec and all(part.replace(".", "").isidentifier() for part in spec.split(":", 1)):
        from dialeval.systems.function import load_function

        return load_function(spec, name, timeout)
    raise UsageError(f"no system {spec!r}: an http address, module:function, or one of {', '.join(NAMES)}")


def _ours(own: str, options: str, name: str) -> System:
    known, found = _OPTIONS[own], {}
    for part in filter(None, options.split(",")):
        key, sign, value = part.partition("=")
        if not sign or key not in known:
            raise UsageError(f"--system {own}: no option {part!r}; it has: {', '.join(known)}")
        try:
            found[key] = known[key](value)
        except ValueError:
            raise UsageError(f"--system {own}:{part}: expected a number") from None
    if own == "retrieval":
        from dialeval.systems.retrieval import Retrieval

        return Retrieval(name, **found)
    if "votes" not in found:
        raise UsageError(f"--system {own}: say which votes, {own}:votes=votes.jsonl")
    from dialeval.systems.wizards import Wizards

    return Wizards(name, "random" if own == "wizard-random" else "max-voted", **found)
