"""Who holds a lock, as its file says it, and whether that process is gone."""

from __future__ import annotations

import json
import os
import socket
import sys
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

Holder = Mapping[str, Any]


def describe_this_process() -> dict[str, Any]:
    """What the lock file says of its holder."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": describe_command(sys.argv),
        "boot": boot_id(),
        "process": name_process(os.getpid()),
        "token": uuid.uuid4().hex,
    }


def describe_command(words: list[str]) -> str:
    """The command line, without the words for Beam: keys of a store may be among them.

    >>> describe_command(["/usr/bin/tokenmill", "build", "my.yaml", "--", "--s3_secret_access_key=abc"])
    'tokenmill build my.yaml'
    """
    ours = words[: words.index("--")] if "--" in words else words
    return " ".join([os.path.basename(ours[0] if ours else ""), *ours[1:]])[:200]


def parse_holder(content: bytes) -> dict[str, Any] | None:
    """The content of a lock file, None for anything else."""
    try:
        holder = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return holder if isinstance(holder, dict) else None


def describe_holder(holder: Holder | None) -> str:
    """`process 4711 on mill-3 since 2026-05-04T03:00:00+00:00 (tokenmill build my.yaml)`; what is known of it."""
    if holder is None:
        return "it has not said yet who it is"
    command = f" ({holder['command']})" if holder.get("command") else ""
    return f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('since')}{command}"


def is_gone(holder: Holder) -> bool:
    """Whether it was a process of this system that has ended. False where that cannot be told."""
    process, pid = holder.get("process"), holder.get("pid")
    if not process or not isinstance(pid, int) or (holder.get("host"), holder.get("boot")) != (socket.gethostname(), boot_id()):
        return False
    here = name_process(os.getpid())
    if not here or str(process).partition(":")[0] != here.partition(":")[0]:
        return False  # a container has numbers of its own for its processes
    return name_process(pid) != process


def name_process(pid: int) -> str:
    """What tells a process from a later one of the same number: its namespace and when it was started. Empty if it is gone.

    A process that has ended and that its parent has not asked for yet is gone, too.
    """
    try:
        namespace = os.readlink("/proc/self/ns/pid")
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else f"{namespace.partition(':')[2]}:{fields[19].decode()}"


def boot_id() -> str:
    """What tells this start of this system from all others; empty where it does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
