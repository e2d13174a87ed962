"""The house rules: what may import what, read from the package's own source."""

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import seorep_async
from seorep_async.cli import app

REPO = Path(__file__).parent.parent
PACKAGE = REPO / "seorep_async"

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
"""Rooms from the ground up, `seorep_async` being the public names; a room imports from its own floor or below."""
APART = [("session", "normalisation"), ("models", "settings")]
"""Rooms of one floor that do not import each other."""

IMPORTS_WHEN_NEEDED = {
    "seorep_async.cli": {"rich", "cli"},  # says how to install what is missing
    # pytest loads it always, few tests ask for it
    "seorep_async.pytest_plugin": {"client", "pytest_plugin", "sandbox", "settings"},
    "seorep_async.normalisation.decoder": {
        "normalisation"
    },  # cattrs takes a while, and most pulls never need it
}
"""Modules with imports inside functions, what they import there, and why."""
IMPORTS_BY_NAME = {"seorep_async", "seorep_async.tables.optional", "seorep_async.cli.options"}
"""Modules that import by a name made as they run: guides, libraries of the extras, the subcommand that is called."""

ENTRIES = {
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "seorep_async",
    "tests",
    "benchmarks",
}


def name_of(file: Path) -> str:
    parts = file.relative_to(REPO).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {name_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}
OURS = [name for name in SOURCES if not name.startswith("seorep_async.sandbox")]
SANDBOX = [name for name in SOURCES if name.startswith("seorep_async.sandbox")]


def imports(module: str) -> Iterator[str]:
    """Give every name that a module imports, wherever in it, in full: `from a import b` is `a.b`."""
    file = SOURCES[module]
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    yield from imported_by(ast.parse(file.read_text(encoding="utf-8")), package)


def imported_by(tree: ast.AST, package: str = "seorep_async") -> Iterator[str]:
    """Give every name that a piece of a module of a package imports, in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{source}.{alias.name}" for alias in node.names)


def room(name: str) -> str:
    """Return the room of a module or of something imported from it: `seorep_async.session.clock.Clock` → session."""
    parts = name.split(".")
    rooms = {module.split(".")[1] for module in SOURCES if "." in module}
    return parts[1] if len(parts) > 1 and parts[1] in rooms else parts[0]


def rooms_imported(module: str) -> set[str]:
    return {room(name) for name in imports(module) if name.split(".")[0] == "seorep_async"}


def floor(found: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if found in rooms)


def test_every_module_is_in_a_room_that_the_design_names() -> None:
    assert {module for module in OURS if room(module) not in set().union(*FLOORS)} == set()


def test_imports_go_down_only() -> None:
    found = {(module, name) for module in OURS for name in rooms_imported(module) - {"sandbox"}}
    assert {(module, name) for module, name in found if floor(name) > floor(room(module))} == set()


def modules_imported(module: str) -> set[str]:
    found = {name if name in SOURCES else name.rpartition(".")[0] for name in imports(module)}
    if module == "seorep_async.cli.app":
        found |= {f"seorep_async.cli.{name}" for name, _ in app._COMMANDS.values()}
    return {name for name in found if name in SOURCES}


def test_no_circle_of_imports_hidden_ones_included() -> None:
    graph = {module: modules_imported(module) for module in SOURCES}
    while leaves := [module for module, needed in graph.items() if not needed]:
        graph = {module: needed.difference(leaves) for module, needed in graph.items() if needed}
    assert graph == {}


def test_no_import_hides_in_a_function() -> None:
    hidden = {
        (module, room(name))
        for module, file in SOURCES.items()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in imported_by(
            node, module if file.name == "__init__.py" else module.rpartition(".")[0]
        )
    }
    assert hidden == {
        (module, name) for module, names in IMPORTS_WHEN_NEEDED.items() for name in names
    }


def test_no_import_hides_in_a_string() -> None:
    words = re.compile(
        r"import_module|__import__|sys\.modules|find_spec|run_module|\bexec\(.*\bimport\b"
    )
    assert {
        name for name, file in SOURCES.items() if words.search(file.read_text(encoding="utf-8"))
    } == IMPORTS_BY_NAME


def statements(function: ast.AST) -> int:
    """Return the number of statements of a function, those of its inner functions included."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1


def test_functions_have_at_most_40_statements() -> None:
    long = {
        f"{module}.{node.name}"
        for module, file in SOURCES.items()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and statements(node) > 40
    }
    assert long == set()


def test_no_module_reaches_for_the_private_names_of_another() -> None:
    reached = set()
    for file in SOURCES.values():
        source = file.read_text(encoding="utf-8")
        own = set(re.findall(r"(?:def |class |self\.|^ +)(_\w+)", source, re.MULTILINE))
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Attribute)
                and re.match("_[a-z]", node.attr)
                and node.attr not in own
            ):
                reached.add(node.attr)
    assert reached == {"_exit"}, "only os has one that its manual names"


def test_names_of_tests_have_at_most_60_characters() -> None:
    sources = {
        file.name: file.read_text(encoding="utf-8") for file in (REPO / "tests").rglob("*.py")
    }
    assert {
        name for source in sources.values() for name in re.findall(r"def (test_\w{56,})", source)
    } == set()


def test_rooms_that_are_apart_import_nothing_of_each_other() -> None:
    imported = {(room(module), name) for module in OURS for name in rooms_imported(module)}
    assert imported.isdisjoint([*APART, *((b, a) for a, b in APART)])


def test_only_the_command_and_the_plugin_import_the_sandbox() -> None:
    assert {room(module) for module in OURS if "sandbox" in rooms_imported(module)} <= {
        "cli",
        "pytest_plugin",
    }


def test_the_sandbox_imports_other_packages_and_itself_only() -> None:
    found = {
        name
        for module in SANDBOX
        for name in imports(module)
        if not name.startswith("seorep_async.sandbox.")
    }
    assert {name.split(".")[0] for name in found} <= sys.stdlib_module_names | {
        "aiohttp",
        "attrs",
        "msgspec",
    }


def test_only_the_session_and_the_sandbox_import_aiohttp() -> None:
    found = {
        (module, name)
        for module in SOURCES
        for name in imports(module)
        if name.split(".")[0] == "aiohttp"
    }
    served = ("aiohttp.web.", "aiohttp.typedefs.")
    found = {
        (module, name)
        for module, name in found
        if module not in SANDBOX or not f"{name}.".startswith(served)
    }
    # `session=` of the client has aiohttp's type; aioresponses builds responses of it
    others = {"seorep_async.client", "seorep_async.pytest_plugin.mended_aioresponses"}
    assert {module for module, _ in found if room(module) != "session"} <= others


def names_of_stub() -> dict[str, str]:
    """Return the names that editors and type checkers see, with their modules."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    return {
        alias.name: node.module or ""
        for node in ast.walk(stub)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_table_of_names_and_the_stub_are_equal() -> None:
    expected = dict(vars(seorep_async)["_MODULES_OF_NAMES"])
    expected |= dict.fromkeys(vars(seorep_async)["_SUBMODULES"], "seorep_async")
    expected["__version__"] = "seorep_async.version"
    assert names_of_stub() == expected


def test_the_package_gives_its_public_names_and_no_others() -> None:
    given: dict[str, object] = {}
    exec("from seorep_async import *", given)  # noqa: S102
    assert given.keys() - {"__builtins__"} == set(vars(seorep_async)["_MODULES_OF_NAMES"])
    assert names_of_stub().keys() <= set(dir(seorep_async))
    for name, module in names_of_stub().items():
        assert getattr(seorep_async, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="module 'seorep_async' has no attribute 'Nothing'"):
        _ = seorep_async.Nothing  # type: ignore[attr-defined]


RACE = """
import sys, threading
import seorep_async

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
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", RACE], capture_output=True, text=True, check=False
    )
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_an_import_of_the_package_loads_three_modules() -> None:
    script = (
        "import sys; before = {*sys.modules}; import seorep_async; print(*{*sys.modules} - before)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    allowed = {"seorep_async", "seorep_async.version", "importlib", "importlib._bootstrap"}
    assert set(result.stdout.split()) <= allowed | {"importlib._bootstrap_external", "warnings"}


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_the_repository_has_the_known_top_level_entries_only() -> None:
    ignored = {
        "build",
        "dist",
        "PKG-INFO",
    }  # git ignores these, and what is left out below; an sdist adds its own
    found = {entry.name for entry in REPO.iterdir() if not entry.name.startswith(".")}
    found = {
        name
        for name in found - ignored
        if not name.endswith((".egg-info", ".csv", ".parquet", ".duckdb")) and name != "__pycache__"
    }
    assert found <= ENTRIES


@pytest.mark.parametrize("name", ["", ".cli", ".errors", ".export", ".pytest_plugin", ".sandbox"])
def test_an_import_loads_nothing_of_the_extras(name: str) -> None:
    late = {
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
        "aiohttp",
    }
    late -= (
        {"aiohttp"} if name in (".export", ".sandbox") else set()
    )  # the rest loads it once a public name is used
    found = f"{late} & sys.modules.keys()"
    if name == ".pytest_plugin":  # which pytest loads always
        found = "[name for name in sys.modules if 'seorep' in name][3:]"
    script = f"import sys, seorep_async{name}; print(*{found})"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, cwd=REPO
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
