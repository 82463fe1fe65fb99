"""Where compiled kernels are kept: a package that cannot be written to, no home, a folder in /tmp of another's."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tokenmill.kernels import keeping

FINGERPRINT = "0123456789abcdef" * 4
NAME = "tokenmill-0123456789abcdef"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The four places below a folder; `shut` makes one of them a file, which nothing can be written below, to root either."""
    monkeypatch.setattr(keeping, "IN_TREE", tmp_path / "tree")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "given"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(keeping.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    return tmp_path


def shut(folder: Path) -> None:
    if folder.is_dir():
        folder.rmdir()
    folder.write_text("")


def test_each_place_stands_in_for_the_one_before(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private = places / "temporary" / f"tokenmill-{os.getuid()}"
    assert keeping.choose_cache(FINGERPRINT) == places / "given" / NAME
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert keeping.choose_cache(FINGERPRINT) == places / "tree"
    shut(places / "tree")
    assert keeping.choose_cache(FINGERPRINT) == places / "home" / ".cache" / NAME
    monkeypatch.setenv("XDG_CACHE_HOME", str(places / "xdg"))
    assert keeping.choose_cache(FINGERPRINT) == places / "xdg" / NAME
    monkeypatch.setenv("XDG_CACHE_HOME", str(places / "tree" / "below a file"))
    assert keeping.choose_cache(FINGERPRINT) == private / NAME
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    monkeypatch.setattr(keeping.tempfile, "gettempdir", lambda: str(places / "gone"))
    assert keeping.choose_cache(FINGERPRINT) is None


@pytest.mark.parametrize("how", ["group may write", "all may write", "link", "file", "of another"])
def test_a_folder_that_others_can_write_to_is_not_trusted(places: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """What lies in it is run as code."""
    for name in ("given", "tree", "home"):
        shut(places / name)
    private = places / "temporary" / f"tokenmill-{os.getuid()}"
    if how == "link":
        (places / "theirs").mkdir(mode=0o700)
        private.symlink_to(places / "theirs")
    elif how == "file":
        private.write_text("")
    else:
        private.mkdir(mode=0o700)
        private.chmod({"group may write": 0o770, "all may write": 0o707}.get(how, 0o700))
    if how == "of another":
        monkeypatch.setattr(keeping.os, "getuid", lambda: private.stat().st_uid)
        assert keeping.choose_cache(FINGERPRINT) == private / NAME
        monkeypatch.setattr(keeping.os, "getuid", lambda: 4711)
        private.rename(private.with_name("tokenmill-4711"))
    assert keeping.choose_cache(FINGERPRINT) is None


def test_kernels_of_other_sources_are_dropped(tmp_path: Path) -> None:
    for name in ("a.nbi", "deep/b.nbc", "a.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    keeping.drop_stale_kernels(tmp_path, FINGERPRINT)
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["a.pyc", "kernels.sha256"]
    (tmp_path / "a.nbi").write_text("")
    keeping.drop_stale_kernels(tmp_path, FINGERPRINT)
    assert (tmp_path / "a.nbi").exists()


@pytest.mark.jit
@pytest.mark.parametrize("where", ["given", "none"])
def test_kernels_run_wherever_they_are_kept(tmp_path: Path, where: str) -> None:
    """In a process of its own: the place is chosen when the package is imported. Other files of that place are left alone."""
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "theirs.nbi").write_text("")
    code = """
import os, sys
from pathlib import Path
from tokenmill.kernels import keeping
if sys.argv[1] == "none":
    keeping.CACHE = None
import numba, numpy as np
from tokenmill.kernels.lines import PADDING, count_lines
before = keeping.are_compiled()
found = count_lines(np.frombuffer(b"a\\n\\nb\\n" + bytes(PADDING), np.uint8))
print(found, before, keeping.are_compiled(), numba.config.CACHE_DIR)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "given")}
    for again in (False, True):
        command = [sys.executable, "-c", code, where]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        known = (again, True) if where == "given" else (False, False)
        assert result.stdout.split() == f"(3, 1) {known[0]} {known[1]} {tmp_path / 'given'}".split()
    assert (tmp_path / "given" / "theirs.nbi").exists()
    assert bool(list((tmp_path / "given").glob("tokenmill-*/**/*.nbc"))) == (where == "given")


@pytest.mark.jit
@pytest.mark.parametrize("damage", [b"", b"\0" * 100, None])
def test_a_damaged_or_full_cache_stops_nobody(tmp_path: Path, damage: bytes | None) -> None:
    """A file of no length is what a power failure leaves; None is a disk that is full."""
    code = """
import resource, sys
from tokenmill.kernels import keeping
import numpy as np
from tokenmill.kernels.lines import PADDING, count_lines
if sys.argv[1] == "full":
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
before = keeping.are_compiled()
print(count_lines(np.frombuffer(b"a\\n\\nb\\n" + bytes(PADDING), np.uint8)), before)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def run(how: str) -> str:
        command = [sys.executable, "-c", code, how]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    if damage is None:
        assert run("full") == "(3, 1) False\n"
        return
    assert run("") == "(3, 1) False\n"
    files = [path for path in tmp_path.rglob("*.nb*") if path.stat().st_size > len(damage)]
    assert len(files) >= 2
    for path in files:
        path.write_bytes(damage)
    assert run("") == "(3, 1) True\n"
    assert all(path.stat().st_size > len(damage) for path in files), "compiled anew, and kept"
