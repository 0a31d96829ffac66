"""Checks the pages for people: `python3 docs/check.py`. mdBook itself does not notice a broken link.

- Every link to a file leads to one, and its anchor to a heading.
- Every path in code form (`examples/python`) is in the repository.
- Every page of the book is in its summary, and links of the book stay within the book.
- README.md has at most 1,200 words, and CHANGELOG.md at most 50 lines.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "docs" / "src"
SUMMARY = BOOK / "SUMMARY.md"
TOP = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
FOLDERS = "deploy|docs|examples|fuzz|guest|host|packages|tests|wit"
MAX_README_WORDS = 1200
MAX_CHANGELOG_LINES = 50


def main():
    pages = [ROOT / name for name in TOP] + sorted(BOOK.rglob("*.md")) + sorted(ROOT.glob("*/README.md"))
    for folder in ["examples/*", "packages/*", "packages/npm/*"]:
        pages += sorted(ROOT.glob(f"{folder}/README.md"))
    wrong = [f"{page.relative_to(ROOT)}: {fault}" for page in pages for fault in faults(page)]
    listed = {(BOOK / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", SUMMARY.read_text())}
    wrong += [f"{page.relative_to(ROOT)}: not in the summary" for page in BOOK.rglob("*.md") if page not in listed | {SUMMARY}]
    words = len((ROOT / "README.md").read_text().split())
    if words > MAX_README_WORDS:
        wrong.append(f"README.md: {words} words, at most {MAX_README_WORDS}")
    lines = len((ROOT / "CHANGELOG.md").read_text().splitlines())
    if lines > MAX_CHANGELOG_LINES:
        wrong.append(f"CHANGELOG.md: {lines} lines, at most {MAX_CHANGELOG_LINES}")
    print("\n".join(wrong) or f"{len(pages)} pages: all links and paths are there")
    return 1 if wrong else 0


def faults(page):
    """Yields what is wrong with the links and paths of a page."""
    text = prose(page.read_text())
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            yield f"{link} leads nowhere"
        elif BOOK in page.parents and target != page and BOOK not in target.parents:
            yield f"{link} leads out of the book; name the path in code form"
        elif anchor and anchor not in anchors(target):
            yield f"{link}: no such heading"
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]*)`", text):
        is_pattern = "NAME" in path
        if not is_pattern and not (ROOT / path).exists() and not (page.parent / path).exists():
            yield f"{path} is not in the repository"


def prose(text):
    """The text without its code blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text()), flags=re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower())) for heading in headings}


if __name__ == "__main__":
    sys.exit(main())
