"""The npm packages, installed without a network: the command, also by `npx`, and the library by its README and its example."""

import json
import platform
import sys

from registry import Registry
from report import programs
from shipped import ROOT

FIRST, AFTER = 1.5, 0.3  # seconds
CALL = ["toolgate", "call", "demo__echo", "text: hello"]
EMPTY = {"name": "empty", "version": "1.0.0", "bin": {"empty": "empty.js"}}


def ring(report, shell, packages):
    """Installs the packages and uses them."""
    system = f"{sys.platform}-{ {'x86_64': 'x64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }"
    command = [next(packages.glob(f"toolgate-{part}.tgz")) for part in ("[0-9]*", f"{system}-*")]
    library = next(packages.glob("toolgate-logic-*.tgz"))
    prefix = shell.folder / "npm"
    prefix.mkdir()
    (prefix / "package.json").write_text('{"private": true, "type": "module"}\n')
    install = ["npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"]
    report.check("npm installs the packages", lambda: shell.run(*install, *command, library, cwd=prefix))

    installed = shell.with_path(prefix / "node_modules/.bin")
    readme = ROOT / "packages/npm/command/README.md"
    report.check("the command calls a tool as its README says", lambda: follow(readme, installed, prefix))
    report.check("a gateway from npm answers over HTTP", lambda: installed.serves("toolgate"))
    report.check("the README of the library", lambda: run_readme(installed, prefix))
    report.check("the library's example in Node.js", lambda: run_example(installed, prefix))
    report.check("npm puts man pages where man looks", lambda: install_globally(shell, [*install, *command]))

    with Registry([*command, make_empty(shell)]) as registry:
        settings = {"npm_config_registry": registry.url, "npm_config_yes": "true"}

        def time_first(*program):
            with shell.home() as home:
                return home.time("npx", *program, cwd=home.folder, **settings)[0]

        def time_again(*program):
            return shell.time("npx", *program, **settings)[0]

        report.takes("npx, from nothing to the first answer", lambda: time_first(*CALL), FIRST, 5, lambda: time_first("empty"))
        time_again(*CALL), time_again("empty")
        report.takes("npx, from then on", lambda: time_again(*CALL), AFTER, 9, lambda: time_again("empty"))
    bare = (lambda: installed.time(*CALL)[0]), AFTER, 15, lambda: shell.time("node", "-e", "0")[0]
    report.takes("the command that npm installed", *bare)


def follow(readme, shell, prefix):
    """Runs the first commands of a README, and compares what they print."""
    lines = programs(readme, "console")[0].splitlines()
    said = shell.run("sh", "-c", lines[0].removeprefix("$ "), cwd=prefix)
    assert said.splitlines() == lines[1:], said
    (prefix / "mcp.json").write_text('{"mcpServers": {"demo": {"command": "toolgate", "args": ["demo-server"]}}}\n')
    for line in programs(readme, "console")[1].splitlines():
        assert "demo" in shell.run("sh", "-c", line.removeprefix("$ "), cwd=prefix), line


def run_readme(shell, prefix):
    """Runs the programs of the library's README that stand alone."""
    for number, program in enumerate(programs(ROOT / "packages/npm/logic/README.md", "js")[:2]):
        (prefix / f"readme{number}.mjs").write_text(program)
        said = shell.run("node", f"readme{number}.mjs", cwd=prefix)
        assert number == 0 or "hello" in said, said


def run_example(shell, prefix):
    """Runs the example with the installed library and the installed command."""
    (prefix / "host.mjs").write_text((ROOT / "examples/javascript/host.mjs").read_text())
    said = shell.run("node", "host.mjs", "demo__add", "a: 1, b: 2", "toolgate", "demo-server", cwd=prefix)
    assert said.endswith("3\n"), said


def install_globally(shell, install):
    """Installs the command for all users of a prefix, and looks for its pages there."""
    place = shell.folder / "global"
    shell.run(*install, "--global", "--prefix", place)
    assert (place / "share/man/man1/toolgate.1").exists(), "there is no share/man/man1/toolgate.1"
    assert (place / "lib/node_modules/toolgate/share/bash-completion/completions/toolgate").exists(), "no completions"
    shell.run(place / "bin/toolgate", "--version")


def make_empty(shell):
    """Packs a command that does nothing, to see what npx and Node.js take by themselves."""
    folder = shell.folder / "empty"
    folder.mkdir()
    (folder / "package.json").write_text(json.dumps(EMPTY))
    (folder / "empty.js").write_text("#!/usr/bin/env node\n")
    shell.run("npm", "pack", "--silent", cwd=folder)
    return folder / "empty-1.0.0.tgz"
