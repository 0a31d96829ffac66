"""The image without a base: built without a network or a daemon, unpacked, and run as its user in a root of its own."""

import json
import os
import shutil
import tarfile

from report import LISTENING, Processes
from shipped import ROOT

NOBODY = 65534
ENTER = (
    'mkdir -p "$0/proc" && mount -t proc proc "$0/proc" && exec env -i HOME=/home/nobody PATH=/usr/bin '
    f'"$(command -v chroot)" --userspec={NOBODY}:{NOBODY} "$0" "$@"'
)


def ring(report, shell, built):
    """Builds the image and tries it, where that is possible."""
    if shutil.which("buildah") is None or os.geteuid() != 0:
        print("skipped: the image needs buildah, and root to run it", flush=True)
        return
    archive, root = shell.folder / "image.tar", shell.folder / "root"
    command = [ROOT / "packages/container/build", built / "toolgate", archive]
    report.check("the image is built", lambda: shell.run(*command))
    report.check("it has the program, certificates and a user, and nothing else", lambda: look_into(archive, root, built))
    # As in a container: /proc is there, and HOME and PATH are what the image says. The mount ends with the process.
    inside = ["unshare", "--mount", "sh", "-c", ENTER, root]

    def call():
        said = shell.run(*inside, "/usr/bin/toolgate", "call", "demo__echo", "text: hello")
        assert said == "hello\n", said

    def serve():
        (root / "etc/toolgate").chmod(0o755)
        (root / "etc/toolgate/toolgate.yaml").write_text(
            "version: 1\nservers:\n  demo: {command: /usr/bin/toolgate, args: [demo-server]}\n"
        )
        toolgate = [*inside, "/usr/bin/toolgate"]
        with Processes(shell.folder / "logs") as processes:
            command = [*toolgate, "serve", "--config", "/etc/toolgate/toolgate.yaml", "--http", "127.0.0.1:0"]
            gateway = processes.start("image", command)
            url = gateway.wait_for_line(LISTENING)[1]
            said = shell.run(built / "toolgate", "call", "demo__add", "a: 1, b: 2", f"--gateway={url}")
            assert said == "3\n", said
            gateway.program.terminate()
            assert gateway.wait(60) == 0, gateway.said()

    report.check("its user calls a tool", call)
    report.check("its user runs a gateway that answers over HTTP", serve)


def look_into(archive, root, built):
    """Unpacks an image as an engine does, and compares what is in it and how it starts."""
    layout = root.parent / "layout"
    with tarfile.open(archive) as tar:
        tar.extractall(layout, filter="data")

    def blob(digest):
        return layout / "blobs" / digest.replace(":", "/")

    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]["digest"]).read_text())
    root.mkdir()
    for layer in manifest["layers"]:
        with tarfile.open(blob(layer["digest"])) as tar:
            tar.extractall(root, filter="fully_trusted", numeric_owner=True)
    config = json.loads(blob(manifest["config"]["digest"]).read_text())["config"]
    assert config["User"] == f"{NOBODY}:{NOBODY}", config
    assert config["Entrypoint"] == ["/usr/bin/toolgate"] and config["Cmd"][0] == "serve", config
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    expected = {"usr/bin/toolgate", "etc/ssl/certs/ca-certificates.crt", "etc/passwd", "etc/group"}
    assert files == expected, files
    assert (root / "usr/bin/toolgate").read_bytes() == (built / "toolgate").read_bytes(), "another program"
    modes = {path: (root / path).stat().st_mode & 0o7777 for path in ("tmp", "usr/bin/toolgate", "home/nobody")}
    assert modes == {"tmp": 0o1777, "usr/bin/toolgate": 0o755, "home/nobody": 0o700}, modes
    assert (root / "home/nobody").stat().st_uid == NOBODY, "the home of the user is another's"
