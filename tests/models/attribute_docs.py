"""Docstrings under attributes, which editors show.

`python -m tests.models.attribute_docs` writes them. They repeat the section "Attributes" in the
docstring of their class.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import seorep_async
from seorep_async import models

CLASSES: tuple[type, ...] = (
    *(
        value
        for value in vars(models).values()
        if inspect.isclass(value) and value is not models.Feed
    ),
    seorep_async.RankingReport,
    seorep_async.PullOutcome,
    seorep_async.PulledReport,
    seorep_async.FailedReport,
)
"""The classes whose attributes have docstrings."""

_ENTRY = re.compile(r" {4}(\w+): (.+)")
_WIDTH = 100


def described_attributes(model: type) -> dict[str, str]:
    """Return the text of each attribute in the docstring of its class."""
    # From Python 3.13 on, `__doc__` is not indented.
    _, _, section = str(inspect.getdoc(model)).partition("Attributes:\n")
    texts: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            name = entry[1]
            texts[name] = entry[2]
        elif line.strip():
            texts[name] += f" {line.strip()}"
    return {name: text[0].upper() + text[1:] for name, text in texts.items()}


def written_attributes(model: type) -> dict[str, str]:
    """Return the docstring under each attribute, in the order of the source."""
    texts = {}
    for attribute, docstring in _attributes(_class_of(model)):
        text = "" if docstring is None else ast.literal_eval(docstring)
        texts[ast.unparse(attribute.target)] = " ".join(text.split())
    return texts


def rewrite(path: Path, classes: list[type]) -> None:
    """Write the docstrings under the attributes of the classes in one file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for model in sorted(classes, key=lambda model: -_class_of(model).lineno):
        texts = described_attributes(model)
        for attribute, docstring in reversed(list(_attributes(_class_of(model)))):
            end = attribute.end_lineno
            old_end = docstring.end_lineno if docstring is not None else end
            lines[end:old_end] = _docstring(texts[ast.unparse(attribute.target)])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _docstring(text: str) -> list[str]:
    whole = f'    """{text}"""'
    if len(whole) <= _WIDTH:
        return [whole]
    indent = "    "
    lines = textwrap.wrap(f'"""{text}', _WIDTH - len(indent), break_on_hyphens=False)
    return [f"{indent}{line}" for line in (*lines, '"""')]


def _file_of(model: type) -> Path:
    # Not `inspect.getfile`: msgspec makes the classes of rows, which have no file.
    return Path(str(sys.modules[model.__module__].__file__))


def _class_of(model: type) -> ast.ClassDef:
    tree = ast.parse(_file_of(model).read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    (definition,) = (node for node in classes if node.name == model.__name__)
    return definition


def _attributes(model: ast.ClassDef) -> Iterator[tuple[ast.AnnAssign, ast.Constant | None]]:
    """Yield the attributes of a class, each with its docstring if it has one."""
    for statement, following in zip(model.body, [*model.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign):
            continue
        value = following.value if isinstance(following, ast.Expr) else None
        yield statement, value if isinstance(value, ast.Constant) else None


def main() -> None:
    files: dict[Path, list[type]] = {}
    for model in CLASSES:
        files.setdefault(_file_of(model), []).append(model)
    for path, classes in files.items():
        rewrite(path, classes)


if __name__ == "__main__":
    main()
