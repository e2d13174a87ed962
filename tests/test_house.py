"""The house rules: which room may import which, read from the package's own source."""

import ast
import importlib
import re
import sys

import pytest

import seorep_async
from tests.processes import run_python
from tests.sources import BY_NAME, PACKAGE, REPO, SOURCES, Source

FLOORS = [
    {"errors", "guides", "plain_values", "reasons", "secret", "version"},
    {"models", "settings"},
    {"profiles"},
    {"tables"},
    {"reports"},
    {"session", "normalisation"},
    {"paging"},
    {"key_check"},
    {"pull"},
    {"resources"},
    {"client"},
    {"seorep_async"},
    {"export"},
    {"history"},
    {"cli", "integrations", "pytest_plugin"},
    {"__main__"},
]
"""Rooms from the ground up. A room imports from its own floor or below.

The room `seorep_async` has the public names.
"""
# Rooms of one floor that do not import each other.
IMPORTS_WHEN_NEEDED = {
    # It says how to install missing packages.
    "seorep_async.cli": {"rich", "cli"},
    # pytest always loads the plugin, and few tests need it.
    "seorep_async.pytest_plugin": {"client", "pytest_plugin", "sandbox", "settings"},
    # cattrs takes a while to load, and most pulls never need it.
    "seorep_async.normalisation.decoder": {"normalisation"},
}
"""Modules with imports inside functions, and the rooms that they import there."""
IMPORTS_BY_NAME = {
    "seorep_async",  # guides and other modules, when they are first used
    "seorep_async.tables.optional",  # the libraries of the extras
    "seorep_async.cli.options",  # the subcommand that is called
}
"""Modules that import by a name made at run time."""

TOP_LEVEL_ENTRIES = {
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "seorep_async",
    "tests",
    "benchmarks",
}
IGNORED_ENTRIES = {"build", "dist", "__pycache__", "PKG-INFO"}
"""Entries that git ignores, and one that a source distribution adds."""
IGNORED_SUFFIXES = (".egg-info", ".csv", ".parquet", ".duckdb", ".xlsx")

SANDBOX = [source for source in SOURCES if source.room == "sandbox"]
OTHERS = [source for source in SOURCES if source.room != "sandbox"]


def floor_of(room: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


def test_every_module_is_in_a_room_that_the_design_names() -> None:
    rooms = {source.room for source in OTHERS}
    assert rooms == set().union(*FLOORS)


def test_imports_go_down_only() -> None:
    for source in OTHERS:
        for room in source.rooms_imported() - {"sandbox"}:
            assert floor_of(room) <= floor_of(source.room), f"{source.name} imports {room}"


def modules_imported(source: Source) -> set[str]:
    modules = set()
    for name in source.imports:
        # The name is that of a module, or of something in one.
        module = name if name in BY_NAME else name.rpartition(".")[0]
        if module in BY_NAME:
            modules.add(module)
    return modules


def test_no_circle_of_imports_hidden_ones_included() -> None:
    graph = {source.name: modules_imported(source) for source in SOURCES}
    while True:
        leaves = {name for name, modules in graph.items() if not modules}
        if not leaves:
            break
        graph = {name: modules - leaves for name, modules in graph.items() if name not in leaves}
    assert graph == {}


def rooms_imported_in_functions(source: Source) -> set[str]:
    rooms = set()
    for function in source.functions:
        for name in source.imports_in(function):
            room = name.split(".")[0]
            if room == "seorep_async":
                room = name.split(".")[1]
            rooms.add(room)
    return rooms


def test_no_import_hides_in_a_function() -> None:
    for source in SOURCES:
        allowed = IMPORTS_WHEN_NEEDED.get(source.name, set())
        assert rooms_imported_in_functions(source) == allowed, source.name


def test_no_import_hides_in_a_string() -> None:
    importing = re.compile(
        r"import_module|__import__|sys\.modules|find_spec|run_module|\bexec\(.*\bimport\b"
    )
    hiding = {source.name for source in SOURCES if importing.search(source.text)}
    assert hiding == IMPORTS_BY_NAME


def test_names_of_tests_have_at_most_60_characters() -> None:
    for file in (REPO / "tests").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert re.findall(r"def (test_\w{56,})", text) == []


@pytest.mark.parametrize("rooms", [("session", "normalisation"), ("models", "settings")])
def test_separate_rooms_do_not_import_each_other(rooms: tuple[str, str]) -> None:
    for source in SOURCES:
        if source.room in rooms:
            other_rooms = set(rooms) - {source.room}
            assert source.rooms_imported().isdisjoint(other_rooms), source.name


def test_only_the_command_and_the_plugin_import_the_sandbox() -> None:
    rooms = {source.room for source in OTHERS if "sandbox" in source.rooms_imported()}
    assert rooms == {"cli", "pytest_plugin"}


def test_the_sandbox_imports_other_packages_and_itself_only() -> None:
    allowed = {*sys.stdlib_module_names, "aiohttp.web", "aiohttp.typedefs", "attrs", "msgspec"}
    for source in SANDBOX:
        for name in source.imports:
            prefixes = {name.split(".")[0], ".".join(name.split(".")[:2])}
            is_own = name.startswith("seorep_async.sandbox.")
            assert is_own or prefixes & allowed, f"{source.name} imports {name}"


MODULES_WITH_AIOHTTP = {
    # The argument `session` of the client has aiohttp's type.
    "seorep_async.client",
    # aioresponses builds responses of aiohttp.
    "seorep_async.pytest_plugin.patched_aioresponses",
}


def test_only_the_session_and_the_sandbox_import_aiohttp() -> None:
    for source in OTHERS:
        packages = {name.split(".")[0] for name in source.imports}
        if "aiohttp" in packages:
            assert source.room == "session" or source.name in MODULES_WITH_AIOHTTP


def names_of_stub() -> dict[str, str]:
    """Return the names that editors and type checkers see, with their modules."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    modules: dict[str, str] = {}
    for node in ast.walk(stub):
        if isinstance(node, ast.ImportFrom):
            modules |= {alias.name: node.module or "" for alias in node.names}
    return modules


def test_the_table_of_names_and_the_stub_are_equal() -> None:
    expected = dict(vars(seorep_async)["_MODULES_OF_NAMES"])
    expected |= dict.fromkeys(vars(seorep_async)["_SUBMODULES"], "seorep_async")
    expected["__version__"] = "seorep_async.version"
    assert names_of_stub() == expected


def test_the_package_exports_exactly_its_public_names() -> None:
    names: dict[str, object] = {}
    exec("from seorep_async import *", names)  # noqa: S102
    assert names.keys() - {"__builtins__"} == set(vars(seorep_async)["_MODULES_OF_NAMES"])
    completed_names = {name for name in dir(seorep_async) if not name.startswith("__")}
    assert completed_names == names_of_stub().keys() - {"__version__"}
    for name, module in names_of_stub().items():
        assert getattr(seorep_async, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="module 'seorep_async' has no attribute 'Nothing'"):
        _ = seorep_async.Nothing  # type: ignore[attr-defined]


RACE = """
import sys, threading
import seorep_async

sys.setswitchinterval(1e-6)

names = [*seorep_async.__all__, *seorep_async._SUBMODULES]
failures = []
barrier = threading.Barrier(8)

def use(number):
    barrier.wait()
    for name in names[number:] + names[:number]:
        try:
            getattr(seorep_async, name)
        except Exception as error:
            failures.append(f"{name}: {error!r}")

threads = [threading.Thread(target=use, args=(7 * number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failures)
"""


def test_eight_threads_may_use_the_package_first_at_once() -> None:
    result = run_python("-W", "error", "-c", RACE)
    assert result.stdout == "[]\n"
    assert result.stderr == ""


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_the_repository_has_the_known_top_level_entries_only() -> None:
    for entry in REPO.iterdir():
        is_hidden = entry.name.startswith(".")
        is_ignored = entry.name in IGNORED_ENTRIES or entry.name.endswith(IGNORED_SUFFIXES)
        assert is_hidden or is_ignored or entry.name in TOP_LEVEL_ENTRIES


LIBRARIES_OF_EXTRAS = {
    "click",
    "rich",
    "pyarrow",
    "duckdb",
    "pandas",
    "polars",
    "dlt",
    "dask",
    "pyspark",
    "mcp",
    "openpyxl",
    "xlsxwriter",
}


def test_an_import_loads_what_it_needs() -> None:
    imports = [
        "import seorep_async",
        "import seorep_async.pytest_plugin",
        "from seorep_async import cli, errors",
        "from seorep_async import export, sandbox",
    ]
    script = ["import sys"]
    for statement in imports:
        script += ["before = {*sys.modules}", statement, "print(*{*sys.modules} - before)"]
    result = run_python("-W", "error", "-c", "\n".join(script), cwd=REPO)
    assert result.stderr == ""
    package, plugin, command, others = (line.split() for line in result.stdout.splitlines())
    top_level = {module for module in package if module.split(".")[0] != "importlib"}
    assert top_level <= {"seorep_async", "seorep_async.version", "warnings"}
    own_modules = [module for module in plugin if module.startswith("seorep_async")]
    assert own_modules == ["seorep_async.pytest_plugin"]
    # aiohttp is loaded once a public name is used
    assert "aiohttp" not in plugin + command
    assert LIBRARIES_OF_EXTRAS.isdisjoint(package + plugin + command + others)
