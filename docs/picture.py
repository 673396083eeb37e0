"""Make docs/images/report.png: the demo's report, as a person sees it.

python docs/picture.py        (needs the dev dependencies and a chromium executable)
"""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from dialeval.jobs.demo import run_demo

PICTURE = Path(__file__).parent / "images" / "report.png"


def main() -> None:
    """Run the demo, open its report, take a picture of the first screens."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run_demo(Path(folder) / "demo")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1500})
        page.goto((Path(folder) / "demo" / "report.html").as_uri())
        page.screenshot(path=PICTURE)
        browser.close()
    print(PICTURE)


if __name__ == "__main__":
    main()
