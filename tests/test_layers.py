"""The architecture of tokenmill: who may import whom. These tables are the document, and the tests hold the code to them."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]

#: The rooms of tokenmill, lowest first, and what each is for. A module imports from its own room and from rooms above it in this
#: list. `tokenizer.py` alone looks down, to `formats`, and only inside functions: a tokenizer knows how to load itself.
ROOMS = {
    "kernels": "compiled loops over flat arrays; knows nothing else of ours",
    "basics": "errors, schemas, the names that options take, Arrow buffers, Unicode text, files of tokenizers",
    "data": "baked Unicode tables",
    "reference": "the algorithms in plain Python: the oracle of the tests, and the engine of `tokenmill explain`",
    "models": "vocabulary and rules of each kind of model, and the tables that the kernels encode with",
    "text": "a text before the model sees it: normalizers, pre-tokenizers, added and special tokens",
    "encoding": "from a text to ids, rows and places in the text",
    "tokenizer": "the one class that people use",
    "training": "from word counts to a tokenizer",
    "formats": "tokenizer files, one module a format: bytes in, bytes out",
    "parquet": "all that is known of the Parquet format",
    "dataset": "reading a finished dataset: shards, blocks, batches, frameworks",
    "report": "what a tokenizer is worth, in numbers, text and pages",
    "explain": "how rules are learned and texts are encoded, step by step",
    "transforms": "Beam transforms over Arrow batches: read, count, encode, write",
    "pipeline": "assembly and the outside world: graphs, runners, output folders, the command line",
}
BASICS = ("version", "errors", "schemas", "names", "arrow", "unicode_text", "tokenizer_files")
LOOKING_DOWN = ("tokenmill/tokenizer.py", "tokenmill.formats")

#: Folders with sources. Two of the rooms stand at the top of the repository, and as links in `tokenmill/`.
FOLDERS = ("tokenmill", "transforms", "pipeline")
#: The package and its command import what they need when they are used.
ENTRANCES = ("tokenmill/__init__.py", "tokenmill/__main__.py")

#: Heavy libraries, and the only places that import them.
HEAVY = {
    "numba": ("tokenmill/kernels/",),
    "apache_beam": ("transforms/", "pipeline/"),
    "click": ("pipeline/cli/",),
}

#: Libraries that are imported inside functions alone, by whoever needs them.
ONLY_INSIDE_FUNCTIONS = ("torch", "jax")

MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 400


class Import(NamedTuple):
    """One import: the file that has it, the line, the full name of what is imported, and whether it stands inside a function."""

    file: str
    line: int
    name: str
    inside: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.name}"


def source_files() -> list[str]:
    folders = [ROOT / folder for folder in FOLDERS]
    return sorted(path.relative_to(ROOT).as_posix() for folder in folders for path in folder.rglob("*.py") if not is_linked(path))


def is_linked(path: Path) -> bool:
    """Whether a source is found through a link: it is looked at where it is."""
    return path.relative_to(ROOT).parts[:2] in (("tokenmill", "pipeline"), ("tokenmill", "transforms"))


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def imported_names(node: ast.AST) -> Iterator[str]:
    """Both `from tokenmill import errors` and `from tokenmill.errors import DataError` give `tokenmill.errors`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            yield full if full.startswith("tokenmill.") and is_module(full) else str(node.module)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def find_imports(node: ast.AST, file: str, *, inside: bool = False) -> Iterator[Import]:
    """The imports below a node; those for type checkers alone do not count."""
    for child in ast.iter_child_nodes(node):
        yield from (Import(file, getattr(child, "lineno", 0), name, inside) for name in imported_names(child))
        if not is_type_checking(child):
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from find_imports(child, file, inside=inside or function)


@functools.cache
def all_imports() -> tuple[Import, ...]:
    return tuple(found for file in source_files() for found in find_imports(ast.parse((ROOT / file).read_bytes()), file))


def room_of(module: str) -> str:
    """The room of `tokenmill.kernels.merge` is `kernels`. A module that stands in no room is missing from the table."""
    assert module != "tokenmill", "inside tokenmill, import from the module that has the name, not from the package"
    part = module.split(".")[1]
    room = "basics" if part in BASICS else part
    assert room in ROOMS, f"tokenmill/{part} is no room of tests/test_layers.py; add it to the table, or move the module"
    return room


def floor_of(module: str) -> int:
    return list(ROOMS).index(room_of(module))


def module_of(file: str) -> str:
    """The name that a file is imported by."""
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if name.startswith("tokenmill") else f"tokenmill.{name}"


def imports_of(library: str) -> Iterator[Import]:
    return (found for found in all_imports() if found.name.split(".")[0] == library)


# --- the tests --------------------------------------------------------------------------------------------------------------


def test_imports_are_found_wherever_they_stand() -> None:
    source = """
import os, numba.typed
from tokenmill.kernels import merge, NOTHING
if TYPE_CHECKING:
    from tokenmill.pipeline import jobs
class Reader:
    def read(self):
        with open("x"):
            from tokenmill.formats import native
"""
    found = [(one.line, one.name, one.inside) for one in find_imports(ast.parse(source), "x.py")]
    kernels = [(3, "tokenmill.kernels.merge", False), (3, "tokenmill.kernels", False)]
    assert found == [(2, "os", False), (2, "numba.typed", False), *kernels, (9, "tokenmill.formats.native", True)]


def test_the_table_names_what_exists() -> None:
    assert {room_of(module_of(file)) for file in source_files() if file not in ENTRANCES} == ROOMS.keys()
    assert {module_of(f"tokenmill/{name}.py") for name in BASICS} <= {module_of(file) for file in source_files()}
    assert len(all_imports()) > 100


def test_nothing_is_imported_by_the_name_of_a_folder_at_the_top() -> None:
    """Anyone's environment may have packages called `pipeline` and `transforms`; ours are parts of tokenmill."""
    assert [str(found) for name in ("pipeline", "transforms") for found in imports_of(name)] == []
    assert {(ROOT / "tokenmill" / name).resolve() for name in ("pipeline", "transforms")} == {
        ROOT / "pipeline",
        ROOT / "transforms",
    }


def test_rooms_import_from_rooms_above_them() -> None:
    wrong = [
        found
        for found in imports_of("tokenmill")
        if found.file not in ENTRANCES and floor_of(found.name) > floor_of(module_of(found.file))
    ]
    assert {(found.file, ".".join(found.name.split(".")[:2])) for found in wrong} == {LOOKING_DOWN}
    assert all(found.inside for found in wrong)


def test_the_package_itself_imports_inside_functions_alone() -> None:
    at_once = [found.name for found in imports_of("tokenmill") if found.file == ENTRANCES[0] and not found.inside]
    assert at_once == ["tokenmill.version"]


def test_modules_make_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for found in imports_of("tokenmill"):
        if found.file not in ENTRANCES and not (found.file == LOOKING_DOWN[0] and found.name.startswith(LOOKING_DOWN[1])):
            graph.setdefault(module_of(found.file), set()).add(found.name)
    while graph:
        leaves = [module for module, needed in graph.items() if not needed & (graph.keys() - {module})]
        assert leaves, f"these import one another in a circle: {sorted(graph)}"
        assert not [module for module in leaves if module in graph[module] and "." in module]
        graph = {module: needed for module, needed in graph.items() if module not in leaves}


@pytest.mark.parametrize("library", HEAVY)
def test_heavy_libraries_stay_in_their_places(library: str) -> None:
    found = list(imports_of(library))
    assert [str(one) for one in found if not one.file.startswith(HEAVY[library])] == []
    assert found or library == "click"


@pytest.mark.parametrize("library", ONLY_INSIDE_FUNCTIONS)
def test_frameworks_are_imported_inside_functions_alone(library: str) -> None:
    assert [str(found) for found in imports_of(library) if not found.inside] == []


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import tokenmill", ("numba", "apache_beam", "pyarrow", "numpy")),
        ("from tokenmill import Tokenizer", ("apache_beam", "datasets", "torch", "jax")),
    ],
)
def test_what_an_import_loads(statement: str, absent: tuple[str, ...]) -> None:
    program = f"{statement}\nimport sys\nprint(*sorted({set(absent)!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("file", source_files())
def test_files_and_functions_are_short(file: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    assert len(source.splitlines()) < MAX_FILE_LINES, f"{file} is too long; cut it in two"
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [node.name for node in functions if (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES]
    assert long == []
