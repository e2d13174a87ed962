"""The package's own source files, and their imports."""

import ast
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from attrs import field, frozen

REPO = Path(__file__).parent.parent
PACKAGE = REPO / "seorep_async"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@frozen(eq=False, slots=False)
class Source:
    """A module of the package: its full name, and its text."""

    name: str
    package: str
    text: str = field(repr=False)

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The syntax tree. Parsing all modules takes 0.4 s, so the collection doesn't need it."""
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """The room of the module, such as `session`."""
        return room_of(self.name)

    @functools.cached_property
    def functions(self) -> list[Function]:
        """All functions and methods."""
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    @functools.cached_property
    def imports(self) -> list[str]:
        """The full name of each thing that the module imports.

        `from a import b` is `a.b`.
        """
        return list(self.imports_in(self.tree))

    def imports_in(self, part: ast.AST) -> Iterator[str]:
        """Yield the full name of each thing that a part of the module imports."""
        for node in ast.walk(part):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name
            elif isinstance(node, ast.ImportFrom):
                dots = "".ljust(node.level, ".")
                module = importlib.util.resolve_name(f"{dots}{node.module or ''}", self.package)
                for alias in node.names:
                    yield f"{module}.{alias.name}"

    def rooms_imported(self) -> set[str]:
        """Return the rooms of the package from which the module imports."""
        own_names = [name for name in self.imports if name.split(".")[0] == "seorep_async"]
        return {room_of(name) for name in own_names}


def _read(file: Path) -> Source:
    parts = file.relative_to(REPO).with_suffix("").parts
    text = file.read_text(encoding="utf-8")
    if parts[-1] == "__init__":
        name = ".".join(parts[:-1])
        package = name
    else:
        name = ".".join(parts)
        package = ".".join(parts[:-1])
    return Source(name, package, text)


SOURCES = [_read(file) for file in sorted(PACKAGE.rglob("*.py"))]
BY_NAME = {source.name: source for source in SOURCES}
_ROOMS = {name.split(".")[1] for name in BY_NAME if "." in name}


def room_of(name: str) -> str:
    """Return the room of a module or of something in it.

    `seorep_async.session.clock.Clock` is in `session`.
    """
    parts = name.split(".")
    if len(parts) > 1 and parts[1] in _ROOMS:
        return parts[1]
    return parts[0]
