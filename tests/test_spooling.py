"""Standard input and pipes as inputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.reading import documents_of, read_all
from tests.test_read_compressed import COMPRESS
from tokenmill.errors import UnreadableFileError
from tokenmill.pipeline.spooling import is_pipe, spool_pipe


def test_a_named_pipe_is_read_once_and_kept(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a\nb\n" * 50_000,))
    writer.start()
    for _ in range(2):
        documents = documents_of(read_all(pipe))
        assert documents[:2] == [("stdin:0", "a"), ("stdin:1", "b")] and len(documents) == 100_000
    writer.join()
    assert not is_pipe(str(tmp_path)) and not is_pipe(str(tmp_path / "none")) and is_pipe("-")


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    pipe = tmp_path / "full"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a",), daemon=True)
    writer.start()
    monkeypatch.setattr("tokenmill.pipeline.spooling._copy", refuse)
    with pytest.raises(UnreadableFileError, match="behind 0 bytes: No space left on device; name a folder"):
        spool_pipe(str(pipe))


def test_standard_input_is_encoded_and_its_file_goes(tmp_path: Path) -> None:
    tokenizer = {"merge_rules": [], "vocab": {"a": 0, "b": 1}}
    (tmp_path / "tok.json").write_text(json.dumps(tokenizer))
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "tokenmill", "encode", "-", "--tokenizer", "tok.json", "--output", "out", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TMPDIR": str(tmp_path / "tmp")}
    content = b'{"text": "ab"}\n{"text": "ba"}\n'
    subprocess.run(command, input=content, cwd=tmp_path, env=environment, check=True, capture_output=True)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [(file["name"], file["documents"]) for file in manifest["files"]] == [("stdin", 2)]
    assert not list((tmp_path / "tmp").glob("tokenmill-stdin-*"))


@pytest.mark.parametrize("compression", ["", *COMPRESS])
@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", ""), ("utf-16-le", ""), ("utf-8", "\ufeff")])
def test_json_in_a_pipe_is_recognised(tmp_path: Path, compression: str, encoding: str, mark: str) -> None:
    content = (mark + '{"text": "a"}\n{"text": "b"}\n').encode(encoding)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    whole = COMPRESS[compression](content) if compression else content
    writer = threading.Thread(target=pipe.write_bytes, args=(whole,), daemon=True)
    writer.start()
    assert documents_of(read_all(pipe, encoding=encoding)) == [("stdin:0", "a"), ("stdin:1", "b")]
    writer.join()


def test_the_next_run_removes_what_killed_runs_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = (
        "import signal\nfrom tokenmill.pipeline.spooling import spool_pipe\nprint(spool_pipe('-'), flush=True)\nsignal.pause()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TMPDIR": str(tmp_path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    running = [subprocess.Popen([sys.executable, "-c", script], env=environment, **pipes) for _ in range(2)]
    paths = []
    for process in running:
        process.stdin.write(b"text\n")
        process.stdin.close()
        paths.append(Path(process.stdout.readline().decode().strip()))
    other = tmp_path / "tokenmill-stdin-file"
    other.write_text("not a folder")
    running[0].kill()
    running[0].wait()
    assert paths[0].read_bytes() == b"text\n"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a",), daemon=True)
    writer.start()
    own = Path(spool_pipe(str(pipe)))
    assert not paths[0].parent.exists() and paths[1].read_bytes() == b"text\n" and own.read_bytes() == b"a" and other.exists()
    running[1].kill()
    running[1].wait()
    for process in running:
        process.stdout.close()
