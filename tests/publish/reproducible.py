"""Builds the components that a release ships, once from this folder and once from another, and compares them byte for byte.

    python3 tests/publish/reproducible.py FOLDER     leaves them in FOLDER

The other folder has another depth and a space in its name, and another name for the home of cargo.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from shipped import ROOT, build, build_script


# The most that a component may have: the one of world `client` has the loop and its exports besides.
MAX_BYTES = {"logic.wasm": 2_800_000, "client.wasm": 2_950_000}


def copy_tree(target):
    """Copies what git knows, as it is now."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, listing.decode().split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


def main():
    script = build_script()
    with tempfile.TemporaryDirectory() as folder:
        tree, cargo_home = Path(folder, "another folder/deeper"), Path(folder, "home of cargo")
        copy_tree(tree)
        cargo_home.symlink_to(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
        here = build(script, sys.argv[1])
        there = build(script, Path(folder, "out"), tree, {"CARGO_HOME": str(cargo_home)})
        wrong = 0
        for name, file in here.items():
            ours, theirs = file.read_bytes(), there[name].read_bytes()
            same = ours == theirs
            wrong += not same or len(ours) > MAX_BYTES[name]
            print(f"{name}: {len(ours)} bytes, sha256 {hashlib.sha256(ours).hexdigest()}:",
                  "the same from both folders" if same else f"NOT THE SAME, {len(theirs)} bytes from the other folder")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
