"""Checks the files of deploy/, and what they promise each other: `check TOOLGATE DIR`.

There is no cluster here. So manifests are held against the schemas of Kubernetes, and the configuration in them, the units,
the files of balancers and the queries of the dashboard against the programs that read them. Every check is one line; a
failure makes the exit code 1.
"""

import json
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema
import yaml

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "replicas"))
from balancer import find
from cluster import LISTENING
from grafana import dashboard
from processes import Late, Processes, free_port

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KUBERNETES, UNITS = DEPLOY / "kubernetes", DEPLOY / "systemd"
NAME = {"app.kubernetes.io/name": "toolgate"}
# How long toolgate gives its servers after drain_delay and grace.
SERVERS_END = 15
REPLICA_PORTS = {8811, 8812, 8813}
PROBES = {"startupProbe": "/health", "readinessProbe": "/ready", "livenessProbe": "/health"}


class Report:
    """The lines that are printed, and how many there are of each kind."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def check(self, name, right, detail=""):
        self.passed += bool(right)
        self.failed += not right
        print(f"{'ok  ' if right else 'FAIL'} {name}", flush=True)
        if not right and str(detail).strip():
            print("     " + str(detail).strip().replace("\n", "\n     "), flush=True)

    def skip(self, name, why):
        self.skipped += 1
        print(f"SKIPPED {name}: {why}", flush=True)


def manifests(report, python):
    """Each manifest by its kind, once the schemas of Kubernetes have passed it."""
    files = sorted(KUBERNETES.glob("*.yaml"))
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    files.remove(KUBERNETES / "kustomization.yaml")
    validate = [python / "kubernetes-validate", "--strict", "--quiet", *files]
    done = subprocess.run(validate, capture_output=True, text=True)
    report.check("all manifests are valid, without an unknown member", done.returncode == 0, done.stdout + done.stderr)
    found = {}
    for file in files:
        for manifest in yaml.safe_load_all(file.read_text()):
            found[manifest["kind"]] = manifest
    listed = set(kustomization["resources"])
    rest = {file.name for file in files} - listed
    report.check("the kustomization has all of them but the placeholders of secrets", rest == {"secret.yaml"}, rest)
    namespace = found["Namespace"]["metadata"]["name"]
    elsewhere = [kind for kind, manifest in found.items() if manifest["metadata"].get("namespace", namespace) != namespace]
    report.check("all are of one namespace", not elsewhere and kustomization["namespace"] == namespace, elsewhere)
    if kubectl := shutil.which("kubectl"):
        # This only reads the folder: it talks to no cluster.
        built = subprocess.run([kubectl, "kustomize", KUBERNETES], capture_output=True, text=True, timeout=60)
        kinds = {manifest["kind"] for manifest in yaml.safe_load_all(built.stdout)} if built.returncode == 0 else set()
        report.check("kustomize builds them", kinds == found.keys() - {"Secret"}, built.stderr)
    else:
        report.skip("kustomize builds them", "kubectl was not found")
    return found


def pods(report, found, config, defaults):
    """What the Deployment promises, and what the others rely on."""
    check = report.check
    deployment = found["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    [container] = pod["containers"]
    # Whatever selects the pods.
    selectors = {
        "Deployment": deployment["selector"]["matchLabels"],
        "Service": found["Service"]["spec"]["selector"],
        "PodDisruptionBudget": found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        "NetworkPolicy": found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        **{f"spread over {spread['topologyKey']}": spread["labelSelector"]["matchLabels"]
           for spread in pod["topologySpreadConstraints"]},
    }
    labels = deployment["template"]["metadata"]["labels"]
    for kind, selector in selectors.items():
        check(f"{kind} selects the pods", selector.items() <= labels.items(), (selector, labels))
    target = found["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    named = (target["apiVersion"], target["kind"], target["name"])
    own = (found["Deployment"]["apiVersion"], "Deployment", found["Deployment"]["metadata"]["name"])
    right = named == own and "replicas" not in deployment
    check("the autoscaler scales the Deployment, which sets no number itself", right, named)
    check("it keeps three replicas", found["HorizontalPodAutoscaler"]["spec"]["minReplicas"] == 3)
    check("a disruption takes one at most", found["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1)
    check("a rollout takes none", deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0)
    # Ports.
    [port] = container["ports"]
    listens = int(config["gateway"]["http"].rsplit(":", 1)[1])
    check("the container's port is that of gateway.http", port["containerPort"] == listens, (port, listens))
    named_ports = {
        **{f"the {kind}": container[kind]["httpGet"]["port"] for kind in PROBES},
        "the Service": found["Service"]["spec"]["ports"][0]["targetPort"],
        "the NetworkPolicy": found["NetworkPolicy"]["spec"]["ingress"][0]["ports"][0]["port"],
    }
    for kind, target in named_ports.items():
        check(f"{kind} names that port", target in (port["name"], listens), target)
    paths = {kind: container[kind]["httpGet"]["path"] for kind in PROBES}
    check("readiness asks /ready, and the others /health", paths == PROBES, paths)
    name = found["Service"]["metadata"]["name"]
    inside = f"{name}.{found['Namespace']['metadata']['name']}"
    names = {name, inside, f"{inside}.svc", f"{inside}.svc.cluster.local"}
    hosts = set(config["gateway"]["hosts"])
    check("gateway.hosts has all names of the Service", names <= hosts, hosts)
    # Times.
    drain, grace = (seconds(config["gateway"].get(key, defaults[key])) for key in ("drain_delay", "grace"))
    needed = drain + grace + SERVERS_END
    ends = pod["terminationGracePeriodSeconds"]
    check(f"a pod has more than {needed:g} s to end", ends > needed, ends)
    ready = container["readinessProbe"]
    noticed = ready["periodSeconds"] * ready["failureThreshold"]
    check("readiness is lost within drain_delay", noticed < drain, (noticed, drain))
    # Rights.
    rights, context = container["securityContext"], pod["securityContext"]
    check("it is not root", context.get("runAsNonRoot") and context.get("runAsUser", 0) > 0, context)
    none = not rights["allowPrivilegeEscalation"] and rights["capabilities"] == {"drop": ["ALL"]}
    check("it has no privileges", none, rights)
    check("its root is read-only", rights["readOnlyRootFilesystem"])
    check("it has the runtime's seccomp profile", context["seccompProfile"] == {"type": "RuntimeDefault"}, context)
    check("it has no token of the cluster", pod["automountServiceAccountToken"] is False)
    resources = container["resources"]
    right = resources["requests"].keys() == {"cpu", "memory"} and resources["limits"].keys() == {"memory"}
    check("it has requests, and a limit of memory", right, resources)
    # Files.
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    check("each volume is mounted", mounts.keys() == volumes.keys(), (mounts.keys(), volumes.keys()))
    check("folders are mounted, so that changes arrive", not any("subPath" in mount for mount in mounts.values()), mounts)
    memory = sum(megabytes(volume["emptyDir"]["sizeLimit"]) for volume in volumes.values() if "emptyDir" in volume)
    limit = megabytes(container["resources"]["limits"]["memory"])
    check("volumes in memory leave most of it to the gateway", memory * 2 < limit, (memory, limit))
    given, sources = container["args"], {volumes["config"]["configMap"]["name"], volumes["secrets"]["secret"]["secretName"]}
    file = given[given.index("--config") + 1]
    key = Path(file).relative_to(mounts["config"]["mountPath"])
    check("the configuration is where it is mounted", str(key) in found["ConfigMap"]["data"], file)
    names = {found[kind]["metadata"]["name"] for kind in ("ConfigMap", "Secret")}
    check("its sources are the ConfigMap and the Secret", sources == names, sources)
    writable = [entry["value"] for entry in container["env"]]
    outside = [path for path in writable if not Path(path).is_relative_to(mounts["cache"]["mountPath"])]
    check("folders that toolgate writes are on a volume", not outside, outside)
    return Path(mounts["secrets"]["mountPath"])


def configuration(report, found, toolgate, schema, mount):
    """The configuration of the ConfigMap, with the Secret and with its placeholders."""
    text, check = found["ConfigMap"]["data"]["toolgate.yaml"], report.check
    config, keys = yaml.safe_load(text), found["Secret"]["stringData"]
    # A comment that shows how to set a key must be right too.
    with_store = yaml.safe_load(re.sub(r"^( *)# (store: )", r"\1\2", text, flags=re.MULTILINE))
    for what, content in (("the configuration", config), ("the configuration with a store", with_store)):
        faults = [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(content)]
        check(f"{what} has only keys that toolgate knows", not faults, "\n".join(faults))
    more = with_store["gateway"].keys() - config["gateway"].keys()
    check("the store is the only key that is commented out", more == {"store"}, more)
    files = set(re.findall(rf"{mount}/([\w-]+)", text)) - {"store"}
    check("it names the files of the Secret, and no others", files == keys.keys(), (files, keys.keys()))
    made = re.findall(r"--from-literal=([\w-]+)=", (KUBERNETES / "secret.yaml").read_text())
    check("the command makes the same", sorted(made) == sorted(keys), made)
    for what, values in (("real secrets", {key: secrets.token_hex(32) for key in keys}), ("placeholders", keys)):
        with tempfile.TemporaryDirectory(prefix="toolgate-deploy-") as folder, Processes(folder) as processes:
            for key, value in values.items():
                (Path(folder) / key).write_text(value)
            file = Path(folder) / "toolgate.yaml"
            address = config["gateway"]["http"]
            file.write_text(text.replace(str(mount), folder).replace(address, f"127.0.0.1:{free_port()}"))
            environment = {"XDG_CACHE_HOME": folder, "XDG_STATE_HOME": folder}
            process = processes.start("toolgate", [toolgate, "serve", "--config", file, "--http"], **environment)
            try:
                process.wait_for_line(LISTENING, 180)  # it compiles the component first
                said = "it started"
            except Late:
                said = process.said()
            if what == "placeholders":
                check("with placeholders, it exits with 2", process.program.poll() == 2, said)
                check("and says which value is too short", "fewer than" in said, said)
            else:
                check("with real secrets, it starts", said == "it started", said)


def units(report, defaults, folder):
    """The units of systemd."""
    needed = sum(seconds(defaults[key]) for key in ("drain_delay", "grace")) + SERVERS_END
    analyze = shutil.which("systemd-analyze")
    for unit in sorted(UNITS.iterdir()):
        text, check = unit.read_text(), report.check
        stop = int(re.search(r"^TimeoutStopSec=(\d+)$", text, flags=re.MULTILINE)[1])
        check(f"{unit.name}: it has more than {needed:g} s to stop", stop > needed, stop)
        own = ("@" in unit.name) == ("Directory=toolgate/%i" in text)
        check(f"{unit.name}: several instances share no folder", own, text)
        if not analyze:
            report.skip(f"{unit.name}: systemd reads it", "systemd-analyze was not found")
            continue
        # The program need not be installed here.
        copy = folder / unit.name.replace("@", "@8811")
        copy.write_text(text.replace("/usr/local/bin/toolgate", "/bin/true"))
        read = subprocess.run([analyze, "verify", copy], capture_output=True, text=True, timeout=60)
        check(f"{unit.name}: systemd reads it without a warning", read.returncode == 0 and not read.stderr, read.stderr)
        rate = [analyze, "security", "--offline=true", "--threshold=20", copy]
        rated = subprocess.run(rate, capture_output=True, text=True, timeout=60)
        check(f"{unit.name}: it is hardened", rated.returncode == 0, rated.stdout[-300:] + rated.stderr)


def balancers(report, defaults, python, folder):
    """The files of the balancers."""
    check, drain = report.check, seconds(defaults["drain_delay"])
    texts = {file: (DEPLOY / file).read_text() for file in ("haproxy.cfg", "nginx.conf", "envoy.yaml")}
    for file, text in texts.items():
        ports = {int(port) for port in re.findall(r"(?:127\.0\.0\.1:|port_value: )(\d+)", text)}
        check(f"{file} has the documented addresses", ports == REPLICA_PORTS | {8080}, ports)
        told = {float(told) for told in re.findall(r"drain_delay \((\d+)s\)", text)}
        check(f"{file} has the right drain_delay in its comments", told == {drain}, told)
    # What may have been sent is never sent again.
    directives = {file: re.sub(r"#.*", "", text) for file, text in texts.items()}
    repeats = {
        "haproxy.cfg": re.findall(r"retry-on +(.*)", directives["haproxy.cfg"]) == ["conn-failure"],
        "nginx.conf": re.findall(r"proxy_next_upstream +(.*);", directives["nginx.conf"]) == ["error timeout"],
        "envoy.yaml": re.findall(r"retry_on: *(.*)", directives["envoy.yaml"]) == ["connect-failure,reset-before-request"],
    }
    for file, right in repeats.items():
        check(f"{file} repeats only what was not sent", right, directives[file])
    inter, fall = re.search(r"inter (\d+)ms .*fall (\d+)", texts["haproxy.cfg"]).groups()
    check("haproxy notices a leaving replica within drain_delay", int(inter) * int(fall) / 1000 < drain)
    envoy = yaml.safe_load(texts["envoy.yaml"])["static_resources"]["clusters"][0]
    [probe] = envoy["health_checks"]
    check("Envoy does too", seconds(probe["interval"]) * probe["unhealthy_threshold"] < drain, probe)
    options = envoy["typed_extension_protocol_options"]["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
    kept = options["common_http_protocol_options"]["idle_timeout"]
    check("Envoy keeps idle connections for less than drain_delay", seconds(kept) < drain, kept)
    kept = re.search(r"^ *keepalive_timeout (\w+);", texts["nginx.conf"], flags=re.MULTILINE)[1]
    check("so does nginx", seconds(kept) < drain, kept)
    commands = {
        "haproxy.cfg": [find("haproxy"), "-c", "-f", DEPLOY / "haproxy.cfg"],
        "nginx.conf": [find("nginx"), "-t", "-c", DEPLOY / "nginx.conf", "-g", f"pid {folder}/nginx.pid;"],
        "envoy.yaml": [python / "envoy", "--mode", "validate", "-c", DEPLOY / "envoy.yaml"],
    }
    for file, command in commands.items():
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        check(f"{file} is read by its program", done.returncode == 0, done.stdout + done.stderr)


def seconds(text):
    """A time such as `5s`, `500ms` or `0.5s` in seconds."""
    number, unit = re.fullmatch(r"([\d.]+)(ms|s|m)", text).groups()
    return float(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]


def megabytes(text):
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", text).groups()
    return int(number) * {"Mi": 1, "Gi": 1024}[unit]


def main():
    toolgate, python = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve() / "python/bin"
    report = Report()
    schema = json.loads(subprocess.run([toolgate, "schema"], capture_output=True, text=True, check=True, timeout=60).stdout)
    gateway = schema["properties"]["gateway"]["properties"]
    defaults = {key: gateway[key]["default"] for key in ("drain_delay", "grace")}
    with tempfile.TemporaryDirectory(prefix="toolgate-deploy-") as folder:
        found = manifests(report, python)
        config = yaml.safe_load(found["ConfigMap"]["data"]["toolgate.yaml"])
        mount = pods(report, found, config, defaults)
        configuration(report, found, toolgate, schema, mount)
        units(report, defaults, Path(folder))
        balancers(report, defaults, python, folder)
        dashboard(report, toolgate, Path(folder) / "grafana")
    print(f"{report.passed} ok, {report.failed} failed, {report.skipped} skipped")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
