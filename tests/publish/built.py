"""Where cargo has put what it built of the crate `toolgate`."""

import json
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Built(NamedTuple):
    """The build script, and the folder into which it wrote the components."""

    script: Path
    folder: Path

    def components(self):
        """The components, by their names."""
        return {file.name: file for file in sorted(self.folder.glob("*.wasm"))}


def built():
    """Builds what is not built yet."""
    # As the tests are built: with other arguments, cargo would compile wasmtime with other features once more.
    command = ["cargo", "test", "--workspace", "--no-run", "--quiet", "--message-format=json"]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    messages = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    manifest = str(ROOT / "host" / "Cargo.toml")
    script = next(
        message for message in messages
        if message.get("manifest_path") == manifest and message["target"]["kind"] == ["custom-build"]
    )
    ran = next(
        message for message in messages
        if message["reason"] == "build-script-executed" and message["package_id"] == script["package_id"]
    )
    return Built(Path(script["filenames"][0]), Path(ran["out_dir"]))
