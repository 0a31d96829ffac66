"""Builds the components as a release ships them, with the build script of the crate `toolgate`.

    python3 tests/publish/shipped.py FOLDER     puts logic.wasm and client.wasm into FOLDER
"""

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build_script():
    """The compiled build script; cargo compiles it if it must."""
    # As the tests are built: with other arguments, cargo would compile wasmtime with other features once more.
    command = ["cargo", "test", "--workspace", "--no-run", "--quiet", "--message-format=json"]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    messages = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    manifest = str(ROOT / "host" / "Cargo.toml")
    return next(
        message["filenames"][0] for message in messages
        if message.get("manifest_path") == manifest and message["target"]["kind"] == ["custom-build"]
    )


def build(script, folder, tree=ROOT, variables=None):
    """Builds the components of a tree into a folder, and returns them by name."""
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {
        "CARGO": "cargo", "RUSTC": "rustc", "PROFILE": "release",
        "CARGO_MANIFEST_DIR": str(tree / "host"), "OUT_DIR": str(folder),
    } | (variables or {})
    said = subprocess.run([script], cwd=tree / "host", env=environment, stdout=subprocess.PIPE, check=True, text=True)
    for packed in folder.glob("*.deflate"):
        # As the crate does, which includes them: DEFLATE without a header.
        content = zlib.decompress(packed.read_bytes(), wbits=-15)
        packed.unlink()
        if packed.stem.endswith(".wasm"):
            packed.with_name(packed.stem).write_bytes(content)
    components = {file.name: file for file in sorted(folder.glob("*.wasm"))}
    if not components:
        sys.exit(f"no component was built:\n{said.stdout}")
    return components


if __name__ == "__main__":
    for file in build(build_script(), sys.argv[1]).values():
        print(f"{file}: {file.stat().st_size} bytes")
