"""What the site has beyond the pages of docs/: the front page, pages of the root, the API, the navigation.

On GitHub the pages are read as they are, so that links go by the folders of the repository. Here they are led
to the pages of the site; what has no page there is linked on GitHub.
"""

import ast
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "WEIGHTS.md")
# In the repository: on the site, where no two names may differ in case alone.
RENAMED = {"README.md": "index.md", "docs/index.md": "map.md", "SECURITY.md": "security-policy.md"}
_LINK = re.compile(r"(?:\.md)?\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation: every metric, and pages that are not named in it."""
    nav: list[Any] = config.nav or []
    metrics = sorted(f"metrics/{path.name}" for path in (ROOT / "docs" / "metrics").glob("*.md"))
    for section in nav:
        if "Metrics" in section:
            section["Metrics"] = metrics
    named = set(re.findall(r"'([\w/.-]+\.md)'", repr(nav)))
    pages = sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))
    if more := [page for page in pages if page not in {*named, "index.md"}]:
        nav.append({"More": more})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root and the API; the README is the front page, the map of docs/ another."""
    if own := files.get_file_from_path("index.md"):
        files.remove(own)
    for name in (*RENAMED, *ROOT_PAGES):
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, RENAMED.get(name, name), content=text))
    files.append(File.generated(config, "api.md", content=api_page()))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Lead links from the repository's folders to the site's, named without `.md`; code stays as it is."""
    parts = _FENCE.split(markdown)
    parts[::2] = [_LINK.sub(lambda found: _led(found, page.file.src_uri, files), one) for one in parts[::2]]
    return "".join(parts)


def _led(found: re.Match[str], here: str, files: Files) -> str:
    target, anchor = found["target"], found["anchor"] or ""
    if re.match(r"[a-z]+:", target):
        return found[0]
    own = {site: repository for repository, site in RENAMED.items()}.get(here)
    at = own or (here if here in ROOT_PAGES else f"docs/{here}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(at), target))
    site = RENAMED.get(path) or path.removeprefix("docs/")
    if files.get_file_from_path(site):
        return f"]({os.path.relpath(site, posixpath.dirname(here) or '.')}{anchor})"
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"](https://github.com/dialeval/dialeval/{kind}/main/{path}{anchor})"


def api_page() -> str:
    """List the public names, as `dialeval.__all__` has them, and what plugins import."""
    tree = ast.parse((ROOT / "src" / "dialeval" / "__init__.py").read_text(encoding="utf-8"))
    homes: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dialeval."):
            homes |= {one.name: node.module for one in node.names}
    lines = ["# API", "", "The names of `import dialeval`, from their docstrings.", ""]
    lines += [f"::: {homes[name]}.{name}\n" for name in sorted(homes)]
    lines += ["## For plugins", ""]
    lines += [f"::: dialeval.{name}\n    options: {{ heading_level: 3 }}\n" for name in PLUGIN_NAMES]
    return "\n".join(lines)


PLUGIN_NAMES = (
    "metrics.registry.Rows",
    "dialogues.formats.records.RecordShape",
    "dialogues.datasets.publicset.PublicSet",
    "pytest_plugin.score_run",
    "pytest_plugin.released_run",
    "jobs.exporting.export",
)
