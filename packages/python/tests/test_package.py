"""What the package is made of: generated types, types for checkers, examples, and a wheel with the same bytes each time."""

import base64
import csv
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from subjects import LOGIC, TOOLGATE
from toolgate.component import compile_portably

PACKAGE = Path(__file__).resolve().parents[1]
MISTAKES = """
from toolgate import Case, Logic
from toolgate.types import Masks, Rule
settings = Logic().default_settings(["demo"])
settings.policy.readonly = True
settings.policy.read_only = "yes"
settings.policy.destructive = "denny"
Masks(group=["all"])
Rule(name="x", effect="deny")
Rule(name="x", tools=["*"], effect=Case("lable", ["a"]))
"""
CORRECT = """
from toolgate import Case, Gate, Logic, Server, StdioServer
from toolgate.types import Audience, Masks, Rule
logic = Logic()
server: Server = StdioServer("x")
settings = logic.default_settings(["demo"])
settings.policy.read_only = True
settings.policy.destructive = "deny"
settings.style = Case("fitted", Audience(target="openai", prefix=""))
settings.masks = Masks(groups=["all"])
settings.rules.lists = [[Rule(name="x", tools=["*"], effect=Case("label", ["a"]))]]
gate = Gate(logic, {"demo": server}, settings)
"""


class Package(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_the_types_are_those_of_the_wit(self):
        ran = run(PACKAGE / "generate.py", "--check")
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_a_type_checker_finds_misspelt_rules(self):
        if importlib.util.find_spec("mypy") is None:
            self.skipTest("mypy is not installed")
        ran = self.mypy(CORRECT)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        found = [line for line in self.mypy(MISTAKES).stdout.splitlines() if ": error:" in line]
        self.assertEqual({int(line.split(":")[1]) for line in found}, {5, 6, 7, 8, 9, 10}, found)

    def mypy(self, program):
        """Checks a program, and the library that it uses."""
        file = self.folder / "program.py"
        file.write_text(program)
        library = [PACKAGE / "toolgate"] if str(PACKAGE) in sys.path else []  # not one that is installed
        return run("-m", "mypy", "--strict", "--cache-dir", self.folder / "cache", file, *library)

    def test_the_example_shows_how_a_call_is_decided(self):
        example = PACKAGE.parents[1] / "examples" / "python" / "host.py"
        library = Path(importlib.util.find_spec("toolgate").origin).parent
        if not (library / "logic.wasm").exists():  # a wheel puts the component into the library
            library = shutil.copytree(library, self.folder / "toolgate")
            shutil.copy(LOGIC, library / "logic.wasm")
        command = [sys.executable, example, "demo__add", "a: 1, b: 2", TOOLGATE, "demo-server"]
        environment = os.environ | {"PYTHONPATH": str(library.parent)}
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for words in ["echo, add, picture", "'add' of server 'demo'", '{"a":1,"b":2}, read as key-value', "ok, sent 1"]:
            self.assertIn(words, ran.stdout)
        self.assertNotIn("sleep", ran.stdout)

    def test_machine_code_in_the_package_is_used_if_it_fits(self):
        library = self.folder / "toolgate"
        shutil.copytree(Path(importlib.util.find_spec("toolgate").origin).parent, library)
        (library / "logic.wasm").write_bytes(b"no component, so it cannot be compiled")
        (library / "logic.cwasm").write_bytes(compile_portably(LOGIC))
        decide = [sys.executable, "-c", 'from toolgate import Logic; print(Logic().parse_arguments("a: 1").arguments)']
        environment = os.environ | {"PYTHONPATH": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache")}
        ran = subprocess.run(decide, capture_output=True, text=True, timeout=120, check=False, env=environment)
        self.assertEqual((ran.stdout, ran.returncode), ('{"a":1}\n', 0), ran.stderr)
        shutil.copy(LOGIC, library / "logic.wasm")
        (library / "logic.cwasm").write_bytes(b"for another wasmtime")
        ran = subprocess.run(decide, capture_output=True, text=True, timeout=120, check=False, env=environment)
        self.assertEqual((ran.stdout, ran.returncode), ('{"a":1}\n', 0), ran.stderr)

    @unittest.skipIf(sys.version_info < (3, 11), "pack.py needs Python 3.11")
    def test_a_wheel_has_what_its_record_says_and_the_same_bytes_each_time(self):
        components = self.folder / "components"
        components.mkdir()
        (components / "logic.wasm").write_bytes(Path(LOGIC).read_bytes())
        extras = self.folder / "extras" / "man" / "man1"
        extras.mkdir(parents=True)
        (extras / "toolgate.1").write_text(".TH toolgate 1\n")
        wheels = []
        for name in ("one", "two"):  # any program of this system will do: this Python is one
            given = ["--binary", Path(sys.executable).resolve(), "--components", components]
            given += ["--extras", self.folder / "extras", "--out", self.folder / name, "--platform", "linux_x86_64"]
            ran = run(PACKAGE / "pack.py", *given)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            wheels += (self.folder / name).glob("*.whl")
        self.assertEqual(wheels[0].read_bytes(), wheels[1].read_bytes())
        with zipfile.ZipFile(wheels[0]) as wheel:
            recorded = list(csv.reader(wheel.read("toolgate-0.1.0.dist-info/RECORD").decode().splitlines()))
            self.assertEqual([row[0] for row in recorded], wheel.namelist())
            for name, digest, size in recorded[:-1]:
                content = wheel.read(name)
                hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
                self.assertEqual((digest, size), (f"sha256={hashed}", str(len(content))), name)
            script = wheel.getinfo("toolgate-0.1.0.data/scripts/toolgate")
            self.assertEqual(script.external_attr >> 16, 0o100755)
            self.assertIn("toolgate-0.1.0.data/data/share/man/man1/toolgate.1", wheel.namelist())
            for name in ("types.py", "py.typed", "logic.wasm"):
                self.assertIn(f"toolgate/{name}", wheel.namelist())
            for file in (PACKAGE.parents[1] / "wit").rglob("*.wit"):
                name = file.relative_to(PACKAGE.parents[1]).as_posix()
                self.assertEqual(wheel.read(f"toolgate/{name}"), file.read_bytes(), name)
            self.assertIn("toolgate/wit/client/world.wit", wheel.namelist())

    @unittest.skipIf(sys.version_info < (3, 11), "pack.py needs Python 3.11")
    def test_the_platform_of_a_program_is_read_from_it(self):
        pack = importlib.util.spec_from_file_location("pack", PACKAGE / "pack.py")
        module = importlib.util.module_from_spec(pack)
        pack.loader.exec_module(module)
        with self.assertRaisesRegex(SystemExit, "--platform TAG"):
            module.linux_tags(b"MZ this is Windows")
        static = bytearray(120)  # an ELF header for x86-64 with one segment, which loads the program
        static[:6] = b"\x7fELF\x02\x01"
        static[18], static[32], static[54], static[56], static[64] = 62, 64, 56, 1, 1
        self.assertEqual(module.linux_tags(bytes(static)), "manylinux_2_17_x86_64.musllinux_1_2_x86_64")
        static[64] = 3  # the segment names the loader of a C library
        self.assertEqual(module.linux_tags(bytes(static) + b"GLIBC_2.4\0GLIBC_2.34\0"), "manylinux_2_34_x86_64")
        with self.assertRaisesRegex(SystemExit, "link it statically"):
            module.linux_tags(bytes(static))


def run(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300, check=False)
