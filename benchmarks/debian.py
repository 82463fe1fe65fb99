"""Files of Debian packages, taken out without an installation: `apt-get download` and `dpkg-deb -x` into a cache folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.errors import BenchmarkError


def unpack_packages(names: list[str], cache: Path) -> dict[str, Path]:
    """The folder of each package's files, by name; a package that this release of Debian lacks is left out, and said.

    Raises BenchmarkError where this machine has no apt, or a download fails.
    """
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise BenchmarkError("the corpora come from Debian packages: this needs apt-get and dpkg-deb (Debian or Ubuntu)")
    missing = [name for name in names if not (cache / name).exists()]
    if missing:
        _download(missing, cache)
    return {name: cache / name for name in names if (cache / name).exists()}


def package_versions(folders: dict[str, Path]) -> dict[str, str]:
    """The version of each unpacked package, as the name of its archive says it."""
    archives = {name: next(folder.glob("*.deb")) for name, folder in folders.items()}
    return {name: archive.name.split("_")[1].replace("%3a", ":") for name, archive in archives.items()}


def _download(names: list[str], cache: Path) -> None:
    """Download packages all at once, and take each out into a folder that is whole or not there."""
    known = set(_run("apt-cache", "pkgnames").split())
    for name in sorted(set(names) - known):
        print(f"  Debian package {name} is not known here: left out (`apt-get update` may help)")
    names = sorted(known.intersection(names))
    if not names:
        return
    half = cache / "half"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    real_names = _real_names(names)
    _run("apt-get", "download", *real_names.values(), folder=half)
    for name, real_name in real_names.items():
        (half / name).mkdir()
        archive = next(half.glob(f"{real_name}_*.deb"))
        _run("dpkg-deb", "-x", str(archive), str(half / name))
        archive.rename(half / name / archive.name)
        (half / name).rename(cache / name)


def _real_names(names: list[str]) -> dict[str, str]:
    """`linux-doc` is an empty package that depends on the one of this release, `linux-doc-6.1`: the latter stands for it."""
    depends: dict[str, list[str]] = {}
    for line in _run("apt-cache", "depends", *names).splitlines():
        if not line.startswith(" "):
            depends[line] = []
        elif line.strip().startswith("Depends:"):
            depends[next(reversed(depends))].append(line.split()[-1])
    return {name: depends[name][0] if _is_pointer(depends[name]) else name for name in names}


def _is_pointer(depends: list[str]) -> bool:
    return len(depends) == 1 and "-doc" in depends[0]


def _run(*command: str, folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        last_line = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchmarkError(f"{command[0]} {command[1]}: {last_line} (`apt-get update` may help)")
    return done.stdout
