"""Makes the wheel, without network: `python3 packages/python/pack.py --binary FILE --components DIR --out DIR`.

The wheel has the command `toolgate`, and the library with the component `logic.wasm` of the folder and its WIT. With `--compiled FILE`,
it also has that component's machine code, which `precompile.py` makes. With `--extras DIR`, it has completions and man pages: that
folder has them as they are below `share` (`man/man1/toolgate.1`, …). The same files make the same bytes. It needs Python 3.11.
"""

import argparse
import base64
import hashlib
import re
import struct
import sys
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a ZIP file can have
MACHINES = {62: "x86_64", 183: "aarch64"}
PT_INTERP = 3
METADATA = """\
Metadata-Version: 2.4
Name: toolgate
Version: {version}
Summary: {description}
License-Expression: {license}
License-File: LICENSE
Keywords: {keywords}
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Requires-Python: >=3.10
Requires-Dist: {requires}
Description-Content-Type: text/markdown

"""
# Newer versions would work but not fit the machine code, so the first decision would wait for a compiler.
WASMTIME = "wasmtime>=42,<51"


def main():
    parser = argparse.ArgumentParser(description="Makes the wheel of toolgate.")
    parser.add_argument("--binary", type=Path, required=True, metavar="FILE", help="the program toolgate")
    parser.add_argument("--components", type=Path, required=True, metavar="DIR", help="the folder with logic.wasm")
    parser.add_argument("--compiled", type=Path, metavar="FILE", help="the machine code of logic.wasm")
    parser.add_argument("--extras", type=Path, metavar="DIR", help="completions and man pages, as below `share`")
    parser.add_argument("--platform", metavar="TAG", help="the platform tag; by default that of the Linux program")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write the wheel to")
    given = parser.parse_args()
    package = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]
    program = given.binary.read_bytes()
    platform = given.platform or linux_tags(program)
    stem = f"toolgate-{package['version']}"

    members = {f"toolgate/{file.name}": file.read_bytes() for file in sorted((HERE / "toolgate").glob("*.py"))}
    members["toolgate/py.typed"] = b""
    for file in sorted((ROOT / "wit").rglob("*.wit")):
        members[f"toolgate/{file.relative_to(ROOT).as_posix()}"] = file.read_bytes()
    members["toolgate/logic.wasm"] = (given.components / "logic.wasm").read_bytes()
    if given.compiled:
        members["toolgate/logic.cwasm"] = given.compiled.read_bytes()
    suffix = ".exe" if platform.startswith("win") else ""
    members[f"{stem}.data/scripts/toolgate{suffix}"] = program
    for file in sorted(given.extras.rglob("*")) if given.extras else []:
        if file.is_file():
            members[f"{stem}.data/data/share/{file.relative_to(given.extras).as_posix()}"] = file.read_bytes()
    members[f"{stem}.dist-info/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    members[f"{stem}.dist-info/METADATA"] = metadata(package)
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.split("."))
    members[f"{stem}.dist-info/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: toolgate\nRoot-Is-Purelib: false\n{tags}".encode()
    record = "".join(f"{name},{digest(content)},{len(content)}\n" for name, content in members.items())
    members[f"{stem}.dist-info/RECORD"] = (record + f"{stem}.dist-info/RECORD,,\n").encode()

    given.out.mkdir(parents=True, exist_ok=True)
    wheel = given.out / f"{stem}-py3-none-{platform}.whl"
    write(wheel, members)
    print(f"{wheel}: {len(members)} files, {wheel.stat().st_size / 1e6:.1f} MB")


def linux_tags(program):
    """Returns the platform tags of a Linux program.

    A static program needs no libraries, so every manylinux and musllinux fits. 2.17 is the oldest manylinux with a kernel
    that Rust supports (3.2), and every pip that runs on Python 3.10 knows it. On musl, wasmtime's wheel wants 1.2.
    A program that is linked to glibc wants the newest version of glibc that one of its symbols has.
    """
    if program[:4] != b"\x7fELF" or program[4:6] != b"\x02\x01":
        sys.exit("the program is not one for Linux with 64 bits, so say for which platform it is: --platform TAG")
    machine = MACHINES.get(struct.unpack_from("<H", program, 18)[0])
    if machine is None:
        sys.exit("the program is for a machine that this file does not know: --platform TAG")
    start, size, count = struct.unpack_from("<Q", program, 32)[0], *struct.unpack_from("<HH", program, 54)
    segments = {struct.unpack_from("<I", program, start + size * n)[0] for n in range(count)}
    if PT_INTERP not in segments:
        return f"manylinux_2_17_{machine}.musllinux_1_2_{machine}"
    versions = {int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", program)}
    if not versions:
        sys.exit("the program is linked to another C library than glibc; link it statically, or give --platform TAG")
    return f"manylinux_2_{max(17, *versions)}_{machine}"


def metadata(package):
    head = METADATA.format(**package | {"keywords": ",".join(package["keywords"]), "requires": WASMTIME})
    return head.encode() + (HERE / "README.md").read_bytes()


def digest(content):
    hashed = hashlib.sha256(content).digest()
    return "sha256=" + base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()


def write(wheel, members):
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, content, compresslevel=9)


if __name__ == "__main__":
    main()
