"""Tasks: users' goals, and tables of the venues that a system can offer.

A task is declared in TOML: domains with a table of venues each, the slots of a user's wishes and how a wish
is compared with a venue, the placeholders of delexicalised replies, and when a booking counts. `open_task`
reads such a declaration and its files. MultiWOZ is one of them.
"""

from dialeval.dialogues.tasks.schema import SHIPPED, Domain, TaskRules, TaskSchema, open_schema
from dialeval.dialogues.tasks.task import Goal, Task, open_task

__all__ = ["SHIPPED", "Domain", "Goal", "Task", "TaskRules", "TaskSchema", "open_schema", "open_task"]
