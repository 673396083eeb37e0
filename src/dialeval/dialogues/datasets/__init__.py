"""Public sets by name: `public_set("fed").dialogues()`, `.ratings()`, `.peer_scores()`.

The reader of each set is imported when it is asked for.
"""

from dialeval.dialogues.datasets.publicset import Download, Gold, PublicSet, data_folder
from dialeval.errors import UsageError

# name -> module of this folder that defines it (each module has a dict SETS)
_HOMES = {
    "actdial": "actdial",
    "blended-skill-talk": "chitchat",
    "controllable": "controllable",
    "conture": "dstc9",
    "convai2": "convai2",
    "convai2-wild": "convai2",
    "dailydialog": "dailydialog",
    "dailydialog++": "dailydialog",
    "dbdc3": "dbdc3",
    "diasafety": "diasafety",
    "dstc9": "dstc9",
    "empathetic": "chitchat",
    "fed": "fed",
    "multiwoz": "multiwoz",
    "personachat": "chitchat",
    "sgd": "sgd",
    "swda": "swda",
    "topicalchat": "topicalchat",
    "uss": "uss",
}
NAMES = tuple(_HOMES)


def public_set(name: str) -> PublicSet:
    """Return a public set by its name.

    >>> public_set("fed").golds[0]
    Gold(dimension='overall', level='dialogue')
    """
    import importlib

    if name not in _HOMES:
        raise UsageError(f"no public set called {name!r}; known: {', '.join(NAMES)}")
    module = importlib.import_module(f"dialeval.dialogues.datasets.{_HOMES[name]}")
    found: PublicSet = module.SETS[name]
    return found


__all__ = ["NAMES", "Download", "Gold", "PublicSet", "data_folder", "public_set"]
