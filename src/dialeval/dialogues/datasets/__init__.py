"""Public sets by name: `public_set("fed").dialogues()`, `.ratings()`, `.peer_scores()`.

The reader of a set is imported on first use.
"""

from dialeval.dialogues.datasets.publicset import Download, GoldDimension, PublicSet, data_folder
from dialeval.errors import UsageError
from dialeval.plugins import load_plugin, plugins

# name -> module of this folder that defines it; each module has a dict SETS
_HOMES = {
    "abceval": "modern",
    "actdial": "annotated",
    "blended-skill-talk": "personas",
    "controllable": "personas",
    "conture": "rated_dialogues",
    "convai2": "personas",
    "convai2-wild": "personas",
    "crsarena": "modern",
    "dailydialog": "annotated",
    "dailydialog++": "annotated",
    "dbdc3": "rated_turns",
    "diahalu": "modern",
    "diasafety": "rated_dialogues",
    "dstc9": "rated_dialogues",
    "empathetic": "personas",
    "fault-pairs": "fault_pairs",
    "fed": "rated_dialogues",
    "mrbench": "modern",
    "mtrag": "modern",
    "multiwoz": "task_oriented",
    "personachat": "personas",
    "sgd": "task_oriented",
    "stc3": "modern",
    "swda": "annotated",
    "tau-retail": "modern",
    "topicalchat": "rated_turns",
    "uss": "rated_turns",
}
NAMES = tuple(_HOMES)


def set_names() -> tuple[str, ...]:
    """Return the names of all public sets, including those of plugins.

    >>> set_names()[:2]
    ('abceval', 'actdial')
    """
    return (*NAMES, *sorted(plugins("sets", NAMES)))


def public_set(name: str) -> PublicSet:
    """Return the public set of this name.

    >>> public_set("fed").golds[0]
    GoldDimension(dimension='overall', level='dialogue')
    """
    import importlib

    if name not in _HOMES:
        if name in (plugin_sets := plugins("sets")):
            return load_plugin(plugin_sets[name], PublicSet)
        raise UsageError(f"unknown public set {name!r}; known: {', '.join(set_names())}")
    module = importlib.import_module(f"dialeval.dialogues.datasets.{_HOMES[name]}")
    named: PublicSet = module.SETS[name]
    return named


__all__ = ["NAMES", "Download", "GoldDimension", "PublicSet", "data_folder", "public_set", "set_names"]
