"""Makes the packages of the crates that are published, and checks that they carry what a build from them wants.

    python3 tests/publish/package.py            makes target/package/*.crate, and looks into them
    python3 tests/publish/package.py --check    also unpacks them, and compiles the libraries without their features
    python3 tests/publish/package.py FOLDER     takes the components from FOLDER instead of building them

A package cannot see what is beside its crate. So the components, which `build.rs` builds in the tree, are put into it; the
WIT and the licence are links, which cargo follows.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from shipped import ROOT, build, build_script

CRATES = {"toolgate": "host", "toolgate-guest": "guest"}
MUST_HAVE = ["Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "src/lib.rs"]


def make(components):
    """Runs `cargo package` with the components in their places, and gives the files that it made."""
    placed = [shutil.copy(file, ROOT / "host" / name) for name, file in components.items()]
    try:
        crates = [word for name in CRATES for word in ("-p", name)]
        # What is in the tree is meant, and compiling all of it is for `--check`.
        subprocess.run(["cargo", "package", "--no-verify", "--allow-dirty", "--quiet", *crates], cwd=ROOT, check=True)
    finally:
        for file in placed:
            os.remove(file)
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "package")
    return {name: folder / f"{name}-{version}.crate" for name in CRATES}


def look_into(crate, wanted):
    """Complains about what a package lacks, or has otherwise than it should."""
    with tarfile.open(crate) as archive:
        members = {name.partition("/")[2]: archive.extractfile(name) for name in archive.getnames()}
        for name, content in wanted.items():
            if name not in members:
                sys.exit(f"{crate.name} lacks {name}")
            if content is not None and members[name].read() != content:
                sys.exit(f"{crate.name} has another {name} than the tree")
    shown = [name for name in wanted if not name.startswith("wit/")]
    print(f"{crate.name}: {len(members)} files, {crate.stat().st_size // 1024} KiB, with {', '.join(shown)} and the WIT")


def check(crate):
    """Compiles the library as an embedder who has nothing but the package and wants no feature; it brings its component."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(crate) as archive:
            archive.extractall(folder, filter="data")
        command = ["cargo", "check", "--locked", "--lib", "--no-default-features", "--target-dir", crate.parent / "check"]
        subprocess.run(command, cwd=Path(folder, crate.stem), env=os.environ | {"RUSTFLAGS": "-D warnings"}, check=True)


def main():
    folders = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    if folders:
        components = {file.name: file for file in sorted(folders[0].glob("*.wasm"))}
    else:
        components = build(build_script(), Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "shipped"))
    crates = make(components)
    contract = {str(file.relative_to(ROOT)): file.read_bytes() for file in sorted((ROOT / "wit").rglob("*.wit"))}
    must_have = dict.fromkeys(MUST_HAVE)
    look_into(crates["toolgate"], must_have | {name: file.read_bytes() for name, file in components.items()} | contract)
    look_into(crates["toolgate-guest"], must_have | contract)
    if "--check" in sys.argv[1:]:
        for crate in crates.values():
            check(crate)


if __name__ == "__main__":
    main()
