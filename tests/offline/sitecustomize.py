"""Watches every Python process that a test starts, as `outside` watches the tests themselves."""

import os

if os.environ.get("DIALEVAL_OUTSIDE_LOG"):
    import outside

    outside.watch()
