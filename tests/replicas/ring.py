"""Several replicas behind real balancers: `run TOOLGATE DIR [--full] [SCENE…]`, after `install DIR`.

Every check is one line, `ok …` or `FAIL …`; the last line counts them, and a failure makes the exit code 1.
"""

import argparse
import faulthandler
import itertools
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is

import balancer
import scenes

# Each count of replicas once, and each balancer once.
SHORT = [("haproxy", 2), ("nginx", 3), ("envoy", 2)]
FULL = list(itertools.product(balancer.FILES, (2, 3)))
LIMIT = 30 * 60  # seconds after which something hangs


class Report:
    """The lines that are printed, and how many there are of each kind."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, right, detail):
        if right:
            self.passed += 1
            print(f"ok   {name}", flush=True)
            return
        self.failed += 1
        print(f"FAIL {name}", flush=True)
        if str(detail).strip():
            print("     " + str(detail).strip().replace("\n", "\n     "), flush=True)

    def note(self, text):
        print(f"     {text}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("toolgate", type=Path, help="the binary")
    parser.add_argument("programs", type=Path, metavar="DIR", help="the folder that `install` filled")
    parser.add_argument("--full", action="store_true", help="each balancer with 2 and with 3 replicas, a minute each time")
    parser.add_argument("--seconds", type=float, help="how long replicas are killed and replaced; 15, or 60 with --full")
    parser.add_argument("--every", type=float, default=5, help="seconds from one kill to the next")
    parser.add_argument("--behind", action="append", choices=balancer.FILES, help="only this balancer")
    parser.add_argument("--keep", type=Path, help="a folder for the logs, which stays")
    known = {scene.__name__: scene for scene in scenes.ALL}
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"only these of: {', '.join(known)}")
    args = parser.parse_intermixed_args()
    if unknown := set(args.scenes) - known.keys():
        parser.error(f"no such scene: {', '.join(sorted(unknown))}")
    missing = [name for name in ("haproxy", "nginx", "redis-server") if not shutil.which(balancer.find(name))]
    if missing:
        parser.error(f"{', '.join(missing)} not found; tests/replicas/install installs them")
    # However this program is stopped, it stops what it started.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, lambda number, _: sys.exit(f"stopped by signal {number}"))
    signal.alarm(LIMIT)
    faulthandler.dump_traceback_later(LIMIT - 5, exit=False)
    began, report = time.monotonic(), Report()
    with tempfile.TemporaryDirectory(prefix="toolgate-replicas-") as folder:
        matrix = [row for row in (FULL if args.full else SHORT) if not args.behind or row[0] in args.behind]
        seconds = args.seconds or (60 if args.full else 15)
        folder = (args.keep or Path(folder)).resolve()
        programs = args.programs.resolve() / "python/bin"
        # Judged by the second only where the machine does nothing else.
        stall = 1 if args.full else 10
        stage = scenes.Stage(args.toolgate.resolve(), programs, folder, report, seconds, args.every, matrix, stall)
        for scene in [known[name] for name in args.scenes] or scenes.ALL:
            print(f"\n# {scene.__name__}: {scene.__doc__.splitlines()[0]}", flush=True)
            started = time.monotonic()
            try:
                scene(stage)
            except Exception:  # one broken scene must not hide what the others find
                report.check(f"{scene.__name__} runs to its end", False, traceback.format_exc())
            print(f"# {scene.__name__} took {time.monotonic() - started:.0f} seconds", flush=True)
    print(f"\n{time.monotonic() - began:.0f} seconds")
    print(f"{report.passed} ok, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
