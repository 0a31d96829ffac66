"""The machine code on disk: it is used only if nobody but this user can have written it."""

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from toolgate import cache
from toolgate.component import new_engine
from wasmtime import component as wasm
from wasmtime import wat2wasm

PORTABLE = bytes(wat2wasm("(component)"))
OTHER = bytes(wat2wasm('(component (core module (func (export "f"))))'))


@unittest.skipUnless(os.name == "posix", "there are no owners and modes")
class Cache(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = Path(os.path.realpath(home.name))
        patched = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.home / "cache")})
        patched.start()
        self.addCleanup(patched.stop)
        self.engine = new_engine()
        self.file = cache.cached_file(PORTABLE)
        self.folder = self.file.parent

    def compiles(self):
        """Loads the component, and reports whether that compiled it."""
        with mock.patch.object(cache.wasm.Component, "deserialize", side_effect=wasm.Component.deserialize) as loaded:
            cache.load(self.engine, PORTABLE)
        return not loaded.called

    def refused(self, words):
        """Checks that the cache is left alone and that the log says why; the component works all the same."""
        before = self.file.read_bytes() if self.file.is_file() else None
        with self.assertLogs("toolgate", "WARNING") as logged:
            self.assertTrue(self.compiles())
        self.assertIn(words, logged.output[0])
        self.assertEqual(self.file.read_bytes() if self.file.is_file() else None, before)

    def test_what_was_compiled_is_loaded_the_next_time(self):
        self.assertTrue(self.compiles())
        self.assertFalse(self.compiles())
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.folder.stat().st_mode & 0o777, 0o700)
        self.assertNotEqual(cache.cached_file(OTHER), self.file)

    def test_a_damaged_file_is_written_again(self):
        for damage in (lambda code: code[:-1], lambda code: code[:100] + b"x" + code[101:], lambda code: b""):
            self.compiles()
            self.file.write_bytes(damage(self.file.read_bytes()))
            self.assertTrue(self.compiles())
            self.assertFalse(self.compiles())

    def test_machine_code_of_another_component_is_not_loaded(self):
        self.compiles()
        cache.load(self.engine, OTHER)
        self.assertNotEqual(cache.cached_file(OTHER).read_bytes(), self.file.read_bytes())

    def test_what_others_may_write_is_not_loaded(self):
        self.compiles()
        for place in (self.file, self.folder, self.folder.parent, self.home / "cache"):
            mode = place.stat().st_mode & 0o777
            place.chmod(mode | 0o002)
            self.refused("may be written by all others")
            place.chmod(mode)
        self.assertFalse(self.compiles())

    def test_links_are_not_followed(self):
        self.compiles()
        copy = self.home / "copy"
        self.file.rename(copy)
        self.file.symlink_to(copy)
        self.refused("are not used")
        self.file.unlink()
        os.link(copy, self.file)
        self.refused("one name")
        self.file.unlink()
        copy.rename(self.file)
        moved = self.home / "moved"
        self.folder.rename(moved)
        self.folder.symlink_to(moved)
        self.refused("is a link")

    def test_a_pipe_is_not_waited_for(self):
        self.compiles()
        self.file.unlink()
        os.mkfifo(self.file)
        with self.assertLogs("toolgate", "WARNING"):
            self.assertTrue(self.compiles())

    @unittest.skipUnless(hasattr(os, "geteuid") and os.geteuid() == 0, "only root can give files away")
    def test_what_belongs_to_others_is_not_loaded(self):
        self.compiles()
        for place in (self.file, self.folder, self.folder.parent):
            os.chown(place, 65534, 65534)
            self.refused("belongs to user 65534")
            os.chown(place, 0, 0)
        self.assertFalse(self.compiles())

    def test_without_a_place_for_it_nothing_is_kept(self):
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "relative", "HOME": ""}):
            self.assertIsNone(cache.cached_file(PORTABLE))
            cache.load(self.engine, PORTABLE)
        (self.home / "cache").write_text("a file where the folder would be")
        with self.assertLogs("toolgate", "WARNING"):
            cache.load(self.engine, PORTABLE)

    def test_old_files_go(self):
        self.compiles()
        for number in range(cache.MAX_KEPT + 3):
            old = self.folder / f"{number}.cwasm"
            old.write_bytes(b"")
            os.utime(old, (number, number))
        (self.folder / "left.part").write_bytes(b"")
        os.utime(self.folder / "left.part", (1, 1))
        cache.load(self.engine, OTHER)
        left = {file.name for file in self.folder.iterdir()}
        self.assertEqual(len(left), cache.MAX_KEPT)
        self.assertTrue({self.file.name, cache.cached_file(OTHER).name} <= left)


if __name__ == "__main__":
    unittest.main()
