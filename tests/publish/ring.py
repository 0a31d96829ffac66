"""Makes the packages, installs each into a clean folder, and uses it from there: `run [BUILT]`.

BUILT is the folder that `packages/binary` filled; without it, that is done first, which takes some 20 minutes. From each
installation, the ring calls the demo tool, runs a gateway over HTTP with a call through it, runs the programs of READMEs
and examples, and looks for man pages and completions. It needs Node.js, pip and a network, to get uv, wasmtime and jco.

Every check is one line, `ok …` or `FAIL …`, and a failure makes the exit code 1. Lines with a limit in brackets are for
`docs/src/figures.md`. Times are the medians of some runs, and the machine should do nothing else.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is

import from_npm  # noqa: E402
import from_pypi  # noqa: E402
import image  # noqa: E402
from report import MB, Report, Shell  # noqa: E402
from shipped import ROOT  # noqa: E402

BINARY_BYTES, PACKED_BYTES = 30 * MB, 13 * MB
FIRST_CALL, COMPLETION = 0.150, 0.100  # seconds


def main():
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("built", nargs="?", type=Path, metavar="BUILT", help="what `packages/binary` made")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the packages in this folder")
    args = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="toolgate-publish-") as folder:
        folder = Path(folder).resolve()
        built = (args.built or folder / "built").resolve()
        packages = (args.keep or folder / "packages").resolve()
        shell = Shell(folder)
        if not args.built:
            shell.online().run(ROOT / "packages/binary", built)
        report.check("the packages are made", lambda: make(shell.online(), built, packages))
        report.check("their versions are the workspace's", lambda: have_one_version(shell, built, packages))
        for package in [*packages.glob("toolgate-*-*64-*.tgz"), *packages.glob("*.whl")]:
            report.at_most(f"the package {package.name[:40]}", package.stat().st_size, PACKED_BYTES)
        program(report, shell, built)
        from_npm.ring(report, shell, packages)
        from_pypi.ring(report, shell, packages)
        image.ring(report, shell, built)
    return report.end()


def make(shell, built, packages):
    """Makes the wheel and the npm packages."""
    python = shell.virtual_environment("precompiler")
    shell.run(python / "pip", "install", "--quiet", from_pypi.wasmtime())
    compiled = shell.folder / "logic.cwasm"
    shell.run(python / "python", ROOT / "packages/python/precompile.py", built / "components/logic.wasm", compiled)
    given = ["--binary", built / "toolgate", "--components", built / "components", "--extras", built / "share"]
    shell.run(sys.executable, ROOT / "packages/python/pack.py", *given, "--compiled", compiled, "--out", packages)
    tools = ["--tools", ROOT / "target/npm"]
    shell.run("node", ROOT / "packages/npm/pack.mjs", *given, *tools, "--out", packages)


def have_one_version(shell, built, packages):
    """Compares the versions of the program and of all packages."""
    files = sorted(path for path in packages.iterdir() if path.suffix in (".tgz", ".whl"))
    said = shell.run(sys.executable, ROOT / "tests/publish/versions.py", *files)
    version = re.search(r"version (\S+) everywhere", said)[1]
    assert shell.run(built / "toolgate", "--version") == f"toolgate {version}\n"


def program(report, shell, built):
    """Measures the program as it is, and what it brings."""
    toolgate = built / "toolgate"
    report.at_most("the program", toolgate.stat().st_size, BINARY_BYTES)
    report.check("it needs no library", lambda: is_static(toolgate))

    def call():
        with shell.home() as home:
            took, said = home.time(toolgate, "call", "demo__echo", "text: hello")
            assert said == "hello\n", said
            return took

    report.takes("the first call ever, with an empty cache", call, FIRST_CALL, runs=15)

    def complete():
        asking = {"TOOLGATE_COMPLETE": "fish"}
        took, said = shell.time(toolgate, "--", "toolgate", "call", "demo__fo", **asking)
        assert said == "demo__forecast\n", said
        return took

    report.takes("the completion of a tool's name", complete, COMPLETION, runs=15)
    report.check("it brings man pages and completions", lambda: look_at(shell, built / "share"))


def is_static(program):
    """Fails if a program is linked to libraries."""
    if sys.platform == "linux":
        sys.path.append(str(ROOT / "packages/python"))
        import pack

        assert "musllinux" in pack.linux_tags(program.read_bytes())


def look_at(shell, share):
    """Looks at the completions and man pages in a folder such as /usr/share."""
    for name in ["bash-completion/completions/toolgate", "zsh/site-functions/_toolgate", "fish/vendor_completions.d/toolgate.fish"]:
        assert "TOOLGATE_COMPLETE" in (share / name).read_text(), name
    shell.run("bash", "-n", share / "bash-completion/completions/toolgate")
    pages = sorted(page.name for page in (share / "man/man1").iterdir())
    assert {"toolgate.1", "toolgate-call.1", "toolgate-serve.1"} <= set(pages), pages
    return pages


if __name__ == "__main__":
    sys.exit(main())
