"""Take screenshots of the quickstart's report into docs/images/, where there is a report and a Chromium: `make docs`."""

import io
import pathlib
import re
import shutil
import subprocess
import tempfile

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[1]
REPORT = ROOT / "runs" / "quickstart" / "report.html"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SHOTS = {"report.png": (r"\w+", 900), "patient.png": ("patient", 1230)}  # the sections that are kept, and the height
WIDTH = 900


def shoot(program: str, page: str, height: int) -> bytes:
    """The top of a page as a PNG of few colors, which is small."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder, small = pathlib.Path(name), io.BytesIO()
        (folder / "page.html").write_text(page, encoding="utf-8")
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
        ]
        flags += [f"--window-size={WIDTH},{height}", f"--screenshot={folder}/shot.png", f"{folder}/page.html"]
        subprocess.run([program, *flags], check=True, capture_output=True, timeout=120)
        Image.open(folder / "shot.png").convert("RGB").quantize(160).save(small, "PNG", optimize=True)
        return small.getvalue()


def main() -> None:
    """Take all, or print why the committed ones stay."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None or not REPORT.exists():
        missing = "no Chromium is installed" if program is None else "`make quickstart` has not made a report"
        print(f"{missing}: docs/images/ keeps its screenshots")
        return
    report = REPORT.read_text(encoding="utf-8")
    for name, (kept, height) in SHOTS.items():
        page = re.sub(rf'<section id="(?!{kept}").*?</section>', "", report, flags=re.DOTALL)
        (ROOT / "docs" / "images" / name).write_bytes(shoot(program, page, height))
        print(f"took docs/images/{name}")


if __name__ == "__main__":
    main()
