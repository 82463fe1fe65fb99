"""`s3://` through Beam's real file system, against an S3 server in a process of its own on this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("boto3")
pytest.importorskip("moto")

from tests.corpora import make_texts, write_jsonl
from tokenmill import errors
from tokenmill.dataset.token_dataset import TokenDataset
from tokenmill.pipeline import lock, lock_objects, store_lock
from tokenmill.pipeline import verify_command as proof
from tokenmill.pipeline.outputs import OutputFolder, read_manifest
from tokenmill.transforms import files
from tokenmill.transforms.stores import FileSystems

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "1",
}


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "tokenmill", *words]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def find_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    port = find_free_port()
    command = [
        sys.executable,
        "-c",
        "import sys; from moto.server import main; main(sys.argv[1:])",
        "-H",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                assert process.poll() is None
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """boto3's object for an empty bucket, `s3://mill`, which all processes find by their environment."""
    import boto3

    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server}.items():
        monkeypatch.setenv(name, value)
    found = boto3.session.Session().resource("s3").Bucket("mill")
    found.create()
    yield found
    found.objects.delete()


def list_keys(bucket: Any) -> set[str]:
    return {found.key for found in bucket.objects.all()}


def test_files_are_written_read_listed_and_deleted(bucket: Any) -> None:
    for name, content in {"a/[1].json": b"{}", "a/empty": b"", "b": b"x" * 9999}.items():
        files.write_file_atomically(f"s3://mill/{name}", content)
        assert files.read_file(f"s3://mill/{name}") == content
        assert files.measure_file(f"s3://mill/{name}") == len(content)
    assert list_keys(bucket) == {"a/[1].json", "a/empty", "b"}, "nothing temporary is left"
    assert files.list_files("s3://mill/a", "*") == ["s3://mill/a/[1].json", "s3://mill/a/empty"]
    files.link_file("s3://mill/b", "s3://mill/a/empty")
    assert files.measure_file("s3://mill/a/empty") == 9999
    files.delete_files(["s3://mill/a/[1].json", "s3://mill/none"])
    assert list_keys(bucket) == {"a/empty", "b"}
    with pytest.raises(FileNotFoundError):
        files.link_file("s3://mill/none", "s3://mill/c")


def test_errors_of_the_store_name_the_place_and_a_way_out(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        files.read_file("s3://mill/none")
    assert missing.value.filename == "s3://mill/none"
    no_bucket = r"s3://nowhere/a.*: there is no bucket 'nowhere'; create it, or check the name"
    with pytest.raises(errors.StoreAccessError, match=no_bucket):
        files.write_file_atomically("s3://nowhere/a", b"x")
    with pytest.raises(errors.StoreAccessError, match=no_bucket):
        files.list_files("s3://nowhere/a", "*")
    with pytest.raises(errors.StoreAccessError, match=no_bucket), lock.hold_folder("s3://nowhere/a"):
        pass
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{find_free_port()}")
    no_answer = r"s3://mill/a: the store does not answer \(.*\); check the network and AWS_ENDPOINT_URL, then run"
    for ask in (files.read_file, FileSystems.exists, FileSystems.checksum):
        with pytest.raises(errors.StoreError, match=no_answer):
            ask("s3://mill/a")
    with pytest.raises(errors.DataError, match=r"cannot be read .* check the credentials and the network"):
        TokenDataset("s3://mill/a")


def test_wrong_credentials_are_told(bucket: Any, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask_for_credentials_after(requests: bytes) -> None:
        headers = {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(f"{server}/moto-api/reset-auth", requests, headers)).close()

    ask_for_credentials_after(b"0")
    try:
        with pytest.raises(errors.StoreAccessError, match=r"s3://mill/a: the store denies access \(.*AWS_ACCESS_KEY_ID"):
            files.read_file("s3://mill/a")
    finally:
        ask_for_credentials_after(b"inf")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(errors.StoreAccessError, match=r"s3://mill/a: the store denies access \(Unable to locate credentials\)"):
        files.read_file("s3://mill/a")


def test_a_store_whose_library_is_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(errors.StoreAccessError, match=r"s3://mill/a: .* run: pip install 'tokenmill\[aws\]'"):
        files.read_file("s3://mill/a")


def test_one_of_two_runs_holds_a_folder(bucket: Any) -> None:
    told = pytest.raises(errors.LockedError, match=rf"process {os.getpid()} on .* its lock ends in")
    with lock.hold_folder("s3://mill/out") as held:
        assert held.warning is None
        with told, lock.hold_folder("s3://mill/out"):
            pass
        assert lock.find_holder("s3://mill/out") is not None
        held.check()
    assert list_keys(bucket) == set()
    assert lock.find_holder("s3://mill/out") is None


def test_of_two_writes_on_the_same_version_one_succeeds(bucket: Any) -> None:
    ours, theirs = (lock_objects.open_lock_object("s3://mill/_lock.json") for _ in range(2))
    first = ours.write(b"1", None)
    for version in (None, '"other"'):
        with pytest.raises(lock_objects.ConflictError):
            theirs.write(b"2", version)
    second = ours.write(b"3", first)
    with pytest.raises(lock_objects.ConflictError):
        theirs.write(b"2", first)
    with pytest.raises(lock_objects.ConflictError):
        theirs.delete(first)
    found = theirs.read()
    assert found is not None
    assert (found.content, found.version) == (b"3", second)
    ours.delete(second)
    assert theirs.read() is None
    with pytest.raises(lock_objects.ConflictError):
        ours.write(b"4", second)


def test_the_lock_of_a_process_that_is_gone_is_taken_over_at_once(bucket: Any) -> None:
    code = (
        "import os; from tokenmill.pipeline import lock; held = lock.hold_folder('s3://mill/out'); held.__enter__(); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert list_keys(bucket) == {"out/_lock.json"}
    assert lock.find_holder("s3://mill/out") is None
    with lock.hold_folder("s3://mill/out"):
        pass
    assert list_keys(bucket) == set()


@pytest.mark.parametrize("change", [{"host": "mill-3"}, {"boot": "another"}])
def test_the_lock_of_another_machine_lasts_for_its_lease(
    bucket: Any, monkeypatch: pytest.MonkeyPatch, change: dict[str, str]
) -> None:
    holder = {**lock.lock_holder.describe_this_process(), "pid": 1, **change}
    bucket.put_object(Key="out/_lock.json", Body=json.dumps(holder).encode())
    with pytest.raises(errors.LockedError, match=r"process 1 on .* its lock ends in \d+ s"), lock.hold_folder("s3://mill/out"):
        pass
    monkeypatch.setattr(store_lock, "LEASE_SECONDS", 0.0)
    with lock.hold_folder("s3://mill/out"):
        pass
    assert list_keys(bucket) == set()


def test_a_run_whose_lock_was_taken_over_publishes_nothing(bucket: Any) -> None:
    taken = json.dumps({"host": "mill-3", "pid": 7, "since": "now"}).encode()
    with lock.hold_folder("s3://mill/out") as held:
        folder = OutputFolder("s3://mill/out", ["0" * 32], lock=held)
        folder.begin()
        bucket.put_object(Key="out/_lock.json", Body=taken)
        with pytest.raises(errors.LockedError, match="has taken the lock over: process 7 on mill-3"):
            folder.publish({"format": "x", "shards": []}, {})
        with pytest.raises(errors.LockedError):
            held.renew()
    assert read_manifest("s3://mill/out") is None
    assert bucket.Object("out/_lock.json").get()["Body"].read() == taken, "the lock of the other run stays"


def test_the_lock_is_renewed_while_a_run_goes_on(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_lock, "RENEW_SECONDS", 0.01)
    with lock.hold_folder("s3://mill/out"):
        first = bucket.Object("out/_lock.json").get()["ETag"]
        for _ in range(500):
            if bucket.Object("out/_lock.json").get()["ETag"] != first:
                break
            time.sleep(0.02)
        else:
            pytest.fail("not renewed")


@pytest.mark.deep
def test_a_dataset_is_made_checked_and_read_in_a_store(bucket: Any, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", make_texts(60, seed=1))
    write_jsonl(tmp_path / "b.jsonl", make_texts(60, seed=2))
    for name in ("a", "b"):
        bucket.upload_file(str(tmp_path / f"{name}.jsonl"), f"corpus/{name}.jsonl")
    config = {
        "input": {"inputs": ["s3://mill/corpus/"]},
        "train": {"model": "byte-bpe", "pretokenizer": "gpt2", "vocab_size": 300},
        "encode": {"block": 32, "pack": "best-fit"},
        "output": {"folder": "s3://mill/out"},
        "split_mb": 0.01,
        "workers": 2,
    }
    (tmp_path / "build.yaml").write_text(json.dumps(config))
    build = ("build", str(tmp_path / "build.yaml"))
    assert (made := run(*build)).returncode == 0, made.stderr
    assert "pip install s3fs" in made.stdout
    assert "nothing has changed since the last build" in run(*build).stdout
    assert run("plan", build[1]).returncode == 0
    with_options = ("--", f"--s3_endpoint_url={os.environ['AWS_ENDPOINT_URL']}")
    assert run("verify", "s3://mill/out", *with_options, AWS_ENDPOINT_URL="").returncode == 0
    before = [batch["input_ids"].tolist() for batch in TokenDataset("s3://mill/out/tokens")]
    proof.pin("s3://mill/out/tokens", "s3://mill/pinned")
    shard = next(key for key in sorted(list_keys(bucket)) if key.startswith("out/tokens/part-"))
    content = bucket.Object(shard).get()["Body"].read()
    bucket.put_object(Key=shard, Body=content[:-9] + b"X" + content[-8:])
    assert run("verify", "s3://mill/out").returncode == 3
    assert run("verify", "s3://mill/out", "--repair").returncode == 0
    assert bucket.Object(shard).get()["Body"].read() == content
    bucket.Object("corpus/b.jsonl").delete()
    assert run(*build).returncode == 0
    assert "verified" in proof.verify("s3://mill/out", deep=True)
    assert [batch["input_ids"].tolist() for batch in TokenDataset("s3://mill/pinned")] == before
    assert not any(key.startswith("out/tokens/_") for key in list_keys(bucket))


@pytest.mark.deep
def test_two_at_once_and_one_that_is_killed(bucket: Any, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", make_texts(600, seed=1))
    words = ("count", str(tmp_path / "a.jsonl"), "--output", "s3://mill/counts", "--split-mb", "0.01")
    started = [subprocess.Popen([sys.executable, "-m", "tokenmill", *words], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ended = [(process.communicate()[1], process.returncode) for process in started]
    assert sorted(code for _, code in ended) in ([0, 4], [0, 2]), "one runs; the other finds it at work, or comes when it is done"
    assert "verified" in proof.verify("s3://mill/counts")
    words = (*words, "--overwrite", "--pretokenizer", "bert")
    old = read_manifest("s3://mill/counts")
    process = subprocess.Popen([sys.executable, "-m", "tokenmill", *words], stderr=subprocess.DEVNULL)
    while not any(key.startswith("counts/_work/") and key.endswith("/split-00003.json") for key in list_keys(bucket)):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert read_manifest("s3://mill/counts") == old
    assert "verified" in proof.verify("s3://mill/counts")
    again = run(*words)
    assert again.returncode == 0, again.stderr
    assert "done already" in again.stderr
    assert "verified" in proof.verify("s3://mill/counts")
