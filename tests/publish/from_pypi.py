"""The wheel, installed into clean environments without a network: the command by `uvx` and pip, the library by its README."""

import shutil
import sys

from shipped import ROOT

sys.path.append(str(ROOT / "packages/python"))
import pack  # noqa: E402

FIRST, AFTER, DECISION = 1.5, 0.3, 1.0  # seconds
CALL = ["call", "demo__echo", "text: hello"]
DECIDE = 'from toolgate import Logic\nlogic = Logic()\nprint(logic.parse_arguments("a: 1").arguments)\n'


def wasmtime():
    """The requirement of the wheel."""
    return pack.WASMTIME


def ring(report, shell, packages):
    """Installs the wheel and uses it."""
    wheel = next(packages.glob("*.whl"))
    links = shell.folder / "links"
    uv = shell.virtual_environment("uv")

    def download():
        online = shell.online()
        online.run(uv / "pip", "install", "--quiet", "uv")
        online.run(uv / "pip", "download", "--quiet", "--dest", links, wasmtime())
        shutil.copy(wheel, links)

    report.check("uv and wasmtime are downloaded", download)
    # Never without `--no-index`: on PyPI, another author owns the name.
    offline = ["--no-index", "--find-links", links, "toolgate"]
    python = shell.virtual_environment("clean")
    installed = shell.with_path(python)
    report.takes("pip install", lambda: shell.time(python / "pip", "install", "--quiet", *offline)[0], runs=1)
    report.check("the command calls a tool", lambda: calls(installed))
    report.check("a gateway from the wheel answers over HTTP", lambda: installed.serves("toolgate"))
    example = [python / "python", ROOT / "examples/python/host.py", "demo__add", "a: 1, b: 2", "toolgate", "demo-server"]
    report.check("the library's example in Python", lambda: installed.run(*example))
    page = python.parent / "share/man/man1/toolgate.1"
    completions = python.parent / "share/bash-completion/completions/toolgate"
    report.check("pip puts man pages and completions below share", lambda: [page.read_text(), completions.read_text()])
    tests = [sys.executable, ROOT / "packages/python/test_wheel.py", wheel]
    report.check("the README, the book and the tests", lambda: shell.online().run(*tests))

    def decide():
        with shell.home() as home:
            took, said = home.time(python / "python", "-c", DECIDE)
            assert said == '{"a":1}\n', said
            return took

    report.takes("Python, the first decision ever, in three lines", decide, DECISION, runs=9)
    uvx = [uv / "uvx", "--offline", "--no-index", "--find-links", links, "toolgate", *CALL]

    def first():
        with shell.home() as home:
            return home.time(*uvx)[0]

    report.takes("uvx, from nothing to the first answer", first, FIRST, runs=5)
    shell.run(*uvx)
    report.takes("uvx, from then on", lambda: shell.time(*uvx)[0], AFTER, runs=9)


def calls(shell):
    """Calls a tool of the demo server."""
    said = shell.run("toolgate", *CALL)
    assert said == "hello\n", said
