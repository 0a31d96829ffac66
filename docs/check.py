"""Checks the pages for people: `python3 docs/check.py`. mdBook itself does not notice a broken link.

- Every link to a file leads to one, and its anchor to a heading.
- Every path in code form (`examples/python`) is in the repository.
- Every page of the book is in its summary, and links of the book stay within the book.
- README.md has at most 1,200 words, and CHANGELOG.md at most 50 lines.
- Nothing in the repository fetches `toolgate` by its name: in a registry it is somebody else's, or anybody could take it.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "docs" / "src"
SUMMARY = BOOK / "SUMMARY.md"
TOP = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
FOLDERS = "deploy|docs|examples|fuzz|guest|host|packages|tests|wit"
NOT_OURS = {".venv", "__pycache__", "node_modules", "target"}
# Programs that fetch a package by its name, and the words after which they do; without words, they do so at once.
NPM = {"install", "i", "add", "dlx", "exec", "x"}
PIP = {"install", "download", "add", "run", "tool"}
FETCH_AFTER = {"npx": (), "pnpx": (), "bunx": (), "uvx": (), "npm": NPM, "pnpm": NPM, "yarn": NPM, "bun": NPM}
FETCH_AFTER |= {"pip": PIP, "pip3": PIP, "pipx": PIP, "uv": PIP, "cargo": {"install", "add", "binstall"}}
BETWEEN = {"args", "pip"} | NPM | PIP | FETCH_AFTER["cargo"]
STAYS_LOCAL = {"--offline", "--no-index", "--path"}
MAX_README_WORDS = 1200
MAX_CHANGELOG_LINES = 50


def main():
    pages = [ROOT / name for name in TOP] + sorted(BOOK.rglob("*.md")) + sorted(ROOT.glob("*/README.md"))
    for folder in ["examples/*", "packages/*", "packages/npm/*"]:
        pages += sorted(ROOT.glob(f"{folder}/README.md"))
    wrong = [f"{page.relative_to(ROOT)}: {fault}" for page in pages for fault in faults(page)]
    listed = {(BOOK / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", SUMMARY.read_text())}
    wrong += [f"{page.relative_to(ROOT)}: not in the summary" for page in BOOK.rglob("*.md") if page not in listed | {SUMMARY}]
    wrong += [f"{file.relative_to(ROOT)}: {fault}" for file in files() for fault in fetches(file)]
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


def files():
    """Yields the files of the repository."""
    yield from (file for file in ROOT.iterdir() if file.is_file())
    for folder in FOLDERS.split("|"):
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and not file.is_symlink() and not NOT_OURS & set(file.relative_to(ROOT).parts):
                yield file


def fetches(file):
    """Yields what gets the package `toolgate` from a registry: commands, and entries in which signs stand between the words."""
    words = re.findall(r"[\w@][\w@./+=<>~^-]*|--?\w[\w=-]*", file.read_text(encoding="utf-8", errors="ignore"))
    for place, word in enumerate(words):
        program = word.rpartition("/")[2]
        if program not in FETCH_AFTER:
            continue
        may_fetch = not FETCH_AFTER[program]
        for following in words[place + 1 : place + 10]:
            may_fetch = may_fetch or following in FETCH_AFTER[program]
            if may_fetch and re.fullmatch(r"(@toolgate/[a-z].*|toolgate)([@=<>~^].*|\.)?", following):
                yield f"{program} … {following}: this name is not ours; say how to install it from a file"
            if following in STAYS_LOCAL or not (following in BETWEEN or following.startswith("-")):
                break


def prose(text):
    """The text without its code blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text()), flags=re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower())) for heading in headings}


if __name__ == "__main__":
    sys.exit(main())
