"""A registry for npm on loopback, with a few packages in archives, so that npx finds the command by its name without a network."""

import base64
import hashlib
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class Registry:
    """Serves packages until it is closed."""

    def __init__(self, archives):
        self.archives = {archive.name: archive.read_bytes() for archive in archives}
        handler = type("Handler", (Handler,), {"registry": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.packages = dict(self.describe(archive) for archive in archives)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def describe(self, archive):
        """Returns the name of a package, and what a registry says of it."""
        with tarfile.open(archive) as tar:
            manifest = json.load(tar.extractfile("package/package.json"))
        name, version = manifest["name"], manifest["version"]
        digest = base64.b64encode(hashlib.sha512(self.archives[archive.name]).digest()).decode()
        dist = {"tarball": f"{self.url}/-/{archive.name}", "integrity": f"sha512-{digest}"}
        page = {"name": name, "dist-tags": {"latest": version}, "versions": {version: manifest | {"dist": dist}}}
        return name, json.dumps(page).encode()


class Handler(BaseHTTPRequestHandler):
    """Answers npm."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        """Sends an archive or the page of a package."""
        name = unquote(self.path.lstrip("/"))
        found = self.registry.archives.get(name.removeprefix("-/")) or self.registry.packages.get(name)
        self.send_response(200 if found else 404)
        kind = "application/octet-stream" if name.startswith("-/") else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(found or b"{}")))
        self.end_headers()
        self.wfile.write(found or b"{}")

    def log_message(self, *_):
        """Stays silent."""
