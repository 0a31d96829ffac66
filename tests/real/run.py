"""Drives the binary against real MCP servers: `run.py --toolgate PATH --servers DIR [SCENE…]`, after `install DIR`.

Every check is one line, `ok …` or `FAIL …`; the last line counts them, and a failure makes the exit code 1.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is

import scenes
from gate import Gate
from world import World


class Report:
    """The lines that are printed, and how many there are of each kind."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.told = None

    def check(self, name, right, detail):
        if right:
            self.passed += 1
            print(f"ok   {name}", flush=True)
            return
        self.failed += 1
        print(f"FAIL {name}", flush=True)
        # Several checks look at one answer; it is shown with the first.
        if detail is not self.told and str(detail).strip():
            print("     " + str(detail).strip().replace("\n", "\n     "), flush=True)
        self.told = detail

    def skip(self, name, why):
        self.skipped += 1
        print(f"SKIPPED {name}: {why}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toolgate", type=Path, required=True, help="the binary")
    parser.add_argument("--servers", type=Path, required=True, help="the folder that `install` filled")
    known = {scene.__name__: scene for scene in scenes.ALL}
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"only these of: {', '.join(known)}")
    args = parser.parse_args()
    if unknown := set(args.scenes) - known.keys():
        parser.error(f"no such scene: {', '.join(sorted(unknown))}")
    if not args.toolgate.is_file():
        parser.error(f"{args.toolgate} is no file")
    began, report = time.monotonic(), Report()
    # The path is resolved since servers compare it with the paths that they resolve.
    temporary = tempfile.TemporaryDirectory(prefix="toolgate-real-")
    with temporary as folder, World(args.servers, Path(folder).resolve()) as world:
        for server, why in sorted(world.skipped.items()):
            report.skip(server, why)
        gate = Gate(args.toolgate.resolve(), world.folder, world.environment)
        stage = scenes.Stage(world, gate, report)
        wanted = [known[name] for name in args.scenes] or scenes.ALL
        for scene in wanted if world.entries else []:
            print(f"\n# {scene.__name__}: {scene.__doc__.splitlines()[0]}", flush=True)
            started = time.monotonic()
            scene(stage)
            print(f"# {scene.__name__} took {time.monotonic() - started:.0f} seconds", flush=True)
    print(f"\n{time.monotonic() - began:.0f} seconds")
    print(f"{report.passed} passed, {report.failed} failed, {report.skipped} skipped")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
