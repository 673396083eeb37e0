"""Tasks: what users were sent out for, and the tables that hold what they can be offered.

A task is declared in TOML: domains with a table of venues each, the slots a user may wish for and how a wish
fits a venue, the placeholders of delexicalised replies, and when a booking counts. `open_task` reads such a
declaration and the files it names. MultiWOZ is one of them.
"""

from dialeval.dialogues.tasks.schema import SHIPPED, Domain, TaskRules, TaskSchema, open_schema
from dialeval.dialogues.tasks.task import Goal, Task, open_task

__all__ = ["SHIPPED", "Domain", "Goal", "Task", "TaskRules", "TaskSchema", "open_schema", "open_task"]
