"""Checks that the version of the workspace is the only one, and that installers look for what a release has.

    python3 tests/publish/versions.py             looks at the files in the tree
    python3 tests/publish/versions.py FILE…       looks at packages too: .tgz of npm, .whl of PyPI

It is the version in Cargo.toml. No other file may have one of its own, except where a format wants it.
"""

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKSPACE = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
VERSION = WORKSPACE["package"]["version"]
# Who has an image in a registry has a version in its name.
IMAGE = re.compile(r"\bimage: toolgate:(\S+)")


def in_tree():
    """Yields what is wrong with the files in the tree."""
    for member in WORKSPACE["members"]:
        package = tomllib.loads((ROOT / member / "Cargo.toml").read_text())["package"]
        # Examples and tests are not published.
        if package.get("publish") is not False and package["version"] != {"workspace": True}:
            yield f"{member}/Cargo.toml: the version is not the workspace's"
    for name, wanted in WORKSPACE["dependencies"].items():
        if isinstance(wanted, dict) and "path" in wanted and wanted.get("version") != VERSION:
            yield f"Cargo.toml: the dependency {name} has version {wanted.get('version')}, and the workspace {VERSION}"
    for manifest in known("packages/**/package.json"):
        read = json.loads(manifest.read_text())
        if "version" in read:
            yield f"{manifest.relative_to(ROOT)}: `pack.mjs` writes the version, so there is none here"
    for page in known("deploy/**/*.yaml"):
        for version in IMAGE.findall(page.read_text()):
            if version != VERSION:
                yield f"{page.relative_to(ROOT)}: the image has version {version}, and the workspace {VERSION}"
    yield from installers()


def installers():
    """Yields what `cargo binstall` would look for and a release would not have."""
    told = tomllib.loads((ROOT / "host/Cargo.toml").read_text())["package"]["metadata"]["binstall"]
    workflow = (ROOT / ".github/workflows/release.yml").read_text()
    targets = re.findall(r"target: ([\w-]+)\}", workflow)
    packed = re.search(r'name="(.*)"\n', workflow)[1].replace("${GITHUB_REF_NAME//\\//-}", f"v{VERSION}")
    if not targets:
        yield "release.yml: no targets are found"
    for target in targets:
        filled = {"repo": "REPO", "version": VERSION, "target": target, "bin": "toolgate", "binary-ext": ""}
        name = packed.replace("${{ matrix.target }}", target)
        url, program = (re.sub(r"\{ (\S+) \}", lambda word: filled[word[1]], told[key]) for key in ("pkg-url", "bin-dir"))
        if (url, program) != (f"REPO/releases/download/v{VERSION}/{name}.tar.gz", f"{name}/toolgate"):
            yield f"host/Cargo.toml: binstall would get {program} of {url}, and the release has {name}.tar.gz"


def in_package(file):
    """Yields what is wrong with a package."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            versions = {re.search(r"^Version: (.*)$", archive.read(name).decode(), re.MULTILINE)[1], file.name.split("-")[1]}
    else:
        with tarfile.open(file) as archive:
            read = json.load(archive.extractfile("package/package.json"))
            versions = {read["version"], *read.get("optionalDependencies", {}).values()}
    if versions != {VERSION}:
        yield f"{file.name}: it has version {', '.join(sorted(versions))}, and the workspace {VERSION}"


def known(pattern):
    """The files that git knows."""
    said = subprocess.run(["git", "ls-files", "-z", f":(glob){pattern}"], cwd=ROOT, capture_output=True, check=True, text=True)
    return [ROOT / name for name in filter(None, said.stdout.split("\0"))]


def main():
    packages = [Path(name) for name in sys.argv[1:]]
    wrong = [*in_tree(), *(fault for file in packages for fault in in_package(file))]
    print("\n".join(wrong) or f"version {VERSION} everywhere: in the tree, and in {len(packages)} packages")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
