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

#: Our packages, lowest first: each imports itself and those before it.
#:   tokenmill   the tokenizer itself: bytes and arrays in, arrays out
#:   transforms  Beam PTransforms over Arrow batches
#:   pipeline    assembly and the outside world
PACKAGES = ("tokenmill", "transforms", "pipeline")

#: The layers inside tokenmill, lowest first: a module imports those of its own layer and of lower ones. `tokenizer.py` alone
#: looks up, to `formats`, and only inside functions: a tokenizer knows how to load itself.
LAYERS = (
    ("kernels",),
    (
        "errors",
        "schemas",
        "names",
        "unicode_text",
        "arrow",
        "reference",
        "reference_marks",
        "reference_words",
        "reference_wordpiece",
        "reference_packing",
        "reference_report",
        "reference_thrift",
        "data",
    ),
    (
        "alphabets",
        "continuations",
        "word_marks",
        "models",
        "code_points",
        "wordpiece",
        "normalizers",
        "normalizing",
        "character_maps",
        "templates",
        "special_text",
        "token_trees",
        "scanners",
        "patterns",
        "decoders",
        "pretokenizers",
        "tokenizer_files",
        "token_ids",
    ),
    ("word_counts", "merge_loop", "score_loop", "training_symbols", "tracing", "encoder", "unmatched", "packing"),
    ("postprocessors", "processing"),
    ("tokenizer", "parquet_pages", "footer_fields", "block_order", "block_rows", "places"),
    ("parquet_footer", "read_ahead"),
    ("shard_files",),
    ("trainers", "training_options", "extension", "formats", "report", "dataset", "frameworks", "explain"),
)
LOOKING_UP = ("tokenmill/tokenizer.py", "tokenmill.formats")

#: Heavy libraries, and the only places that import them.
HEAVY = {
    "numba": ("tokenmill/kernels/",),
    "apache_beam": ("transforms/", "pipeline/"),
    "click": (
        "pipeline/cli/main.py",
        "pipeline/cli/text_commands.py",
        "pipeline/cli/trust_commands.py",
        "pipeline/cli/command_group.py",
        "pipeline/cli/options.py",
        "pipeline/cli/train_options.py",
    ),
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
    return sorted(path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


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
            yield full if full.split(".")[0] in PACKAGES and is_module(full) else str(node.module)


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


def layer_of(module: str) -> int:
    """The layer of `tokenmill.kernels.encode` is 0. A module that stands in no layer is missing from the table."""
    assert module != "tokenmill", "inside tokenmill, import from the module that has the name, not from the package"
    part = module.split(".")[1]
    layers = [number for number, parts in enumerate(LAYERS) if part in parts]
    assert layers, f"tokenmill/{part} stands in no layer of tests/test_layers.py; add it to the table"
    return layers[0]


def module_of(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def ours(package: str) -> Iterator[Import]:
    return (found for found in all_imports() if found.name.split(".")[0] == package)


# --- the tests --------------------------------------------------------------------------------------------------------------


def test_imports_are_found_wherever_they_stand() -> None:
    source = """
import os, numba.typed
from tokenmill.kernels import bpe, NOTHING
if TYPE_CHECKING:
    from pipeline import jobs
class Reader:
    def read(self):
        with open("x"):
            from tokenmill.formats import native
"""
    found = [(one.line, one.name, one.inside) for one in find_imports(ast.parse(source), "x.py")]
    outside = [
        (2, "os", False),
        (2, "numba.typed", False),
        (3, "tokenmill.kernels.encode", False),
        (3, "tokenmill.kernels", False),
    ]
    assert found == [*outside, (9, "tokenmill.formats.native", True)]


def test_the_table_names_what_exists() -> None:
    parts = {name for layer in LAYERS for name in layer}
    files = [file for file in source_files() if file.startswith("tokenmill/") and file != "tokenmill/__init__.py"]
    assert {module_of(file).split(".")[1] for file in files} <= parts
    assert len(all_imports()) > 100


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_downwards(package: str) -> None:
    higher = PACKAGES[PACKAGES.index(package) + 1 :]
    assert [str(found) for name in higher for found in ours(name) if found.file.startswith(f"{package}/")] == []


def test_kernels_import_nothing_else_of_ours() -> None:
    wrong = [found for package in PACKAGES for found in ours(package) if found.file.startswith("tokenmill/kernels/")]
    assert [str(found) for found in wrong if not found.name.startswith("tokenmill.kernels")] == []


def test_layers_of_tokenmill_import_downwards() -> None:
    upwards = [
        found
        for found in ours("tokenmill")
        if found.file.startswith("tokenmill/") and found.file != "tokenmill/__init__.py"
        if layer_of(found.name) > layer_of(module_of(found.file))
    ]
    assert {(found.file, ".".join(found.name.split(".")[:2])) for found in upwards} == {LOOKING_UP}
    assert all(found.inside for found in upwards)


def test_the_package_itself_imports_inside_functions_alone() -> None:
    assert [str(found) for found in ours("tokenmill") if found.file == "tokenmill/__init__.py" and not found.inside] == []


def test_modules_make_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for package in PACKAGES:
        for found in ours(package):
            if not found.inside:
                graph.setdefault(module_of(found.file), set()).add(found.name)
    while graph:
        leaves = [module for module, needed in graph.items() if not needed & (graph.keys() - {module})]
        assert leaves, f"these import one another in a circle: {sorted(graph)}"
        assert not [module for module in leaves if module in graph[module] and "." in module]
        graph = {module: needed for module, needed in graph.items() if module not in leaves}


@pytest.mark.parametrize("library", HEAVY)
def test_heavy_libraries_stay_in_their_places(library: str) -> None:
    found = list(ours(library))
    assert [str(one) for one in found if not one.file.startswith(HEAVY[library])] == []
    assert found or library == "click"


@pytest.mark.parametrize("library", ONLY_INSIDE_FUNCTIONS)
def test_frameworks_are_imported_inside_functions_alone(library: str) -> None:
    assert [str(found) for found in ours(library) if not found.inside] == []


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
