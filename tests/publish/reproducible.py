"""Builds the components once more from another folder, and compares them with those of this one, byte for byte.

What builds them is the build script of `toolgate` itself. The other folder has another depth and a space in its name, and
another name for the home of cargo.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from built import ROOT, built


def copy_tree(target):
    """Copies what git knows, as it is now."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, listing.decode().split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


def main():
    here = built()
    with tempfile.TemporaryDirectory() as folder:
        tree, out, cargo_home = (Path(folder, name) for name in ("another folder/deeper", "out", "home of cargo"))
        copy_tree(tree)
        out.mkdir()
        cargo_home.symlink_to(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
        environment = {
            "CARGO": "cargo", "RUSTC": "rustc", "CARGO_HOME": str(cargo_home),
            "CARGO_MANIFEST_DIR": str(tree / "host"), "OUT_DIR": str(out),
        }
        said = subprocess.run(
            [here.script], cwd=tree / "host", env=os.environ | environment, stdout=subprocess.PIPE, check=True, text=True)
        wrong = 0
        for name, file in here.components().items():
            if not (out / name).exists():
                sys.exit(f"{name} was not built:\n{said.stdout}")
            ours, theirs = file.read_bytes(), (out / name).read_bytes()
            same = ours == theirs
            wrong += not same
            print(f"{name}: {len(ours)} bytes, sha256 {hashlib.sha256(ours).hexdigest()}:",
                  "the same from both folders" if same else f"NOT THE SAME, {len(theirs)} bytes from the other folder")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
