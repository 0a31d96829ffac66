"""The balancers, each with its file of deploy/ in which only addresses are changed."""

import http.client
import re
import shutil
import time
from pathlib import Path

from processes import free_port, until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
# The addresses that the files have.
LISTENER, REPLICAS = "8080", ("8811", "8812", "8813")
PORT = re.compile(r"(127\.0\.0\.1:|port_value: )(\d+)")


class Balancer:
    """A balancer in front of the replicas."""

    def __init__(self, name, port):
        self.name, self.port = name, port


def start(name, processes, programs, ports):
    """Starts a balancer in front of the replicas on these ports, and waits until it lets requests through."""
    port = free_port()
    file = FILES[name]
    config = processes.folder / file
    config.write_text(with_addresses((DEPLOY / file).read_text(), port, ports))
    process = processes.start(name, COMMANDS[name](programs, config, processes.folder))
    until(lambda: is_ready(port) or process.check_runs(), 30, f"{name} to let requests through")
    # Envoy takes a replica in when its first probe has come back.
    time.sleep(1)
    return Balancer(name, port)


def with_addresses(text, port, ports):
    """The file for a balancer on this port and replicas on those; lines of more replicas are left out."""
    mapped = {LISTENER: port, **dict(zip(REPLICAS, ports))}
    lines, used = [], []
    for line in text.splitlines():
        found = PORT.search(line)
        if found and not line.lstrip().startswith("#") and found[2] in (LISTENER, *REPLICAS):
            if found[2] not in mapped:
                continue
            used.append(found[2])
            line = line.replace(found[0], f"{found[1]}{mapped[found[2]]}")
        lines.append(line)
    if sorted(used) != sorted(mapped):
        raise ValueError(f"the file has the ports {used}, and not each of {sorted(mapped)} once")
    return "\n".join(lines) + "\n"


def is_ready(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def nginx(_, config, folder):
    # What the system's nginx keeps in folders of its own, which need root.
    paths = [f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")]
    config.write_text(config.read_text().replace("http {", "http {\n    " + "\n    ".join(paths), 1))
    return [find("nginx"), "-c", config, "-g", f"daemon off; pid {folder}/nginx.pid;"]


def envoy(programs, config, _):
    return [programs / "envoy", "-c", config, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"]


def find(program):
    """The program; that of a service may be on the path of root alone."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin") or program


FILES = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf", "envoy": "envoy.yaml"}
COMMANDS = {"haproxy": lambda _, config, __: [find("haproxy"), "-f", config], "nginx": nginx, "envoy": envoy}
