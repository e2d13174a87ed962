"""Measures of plain code: words per statement, packed forms, comments and names.

`python -m tests.plainness FOLDER` prints the figures. A word is a name, a keyword, a number, a
string or an operator. Only the header of a compound statement counts. Imports, docstrings, and the
headers of functions and classes do not count.
"""

import ast
import bisect
import functools
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

SILENT = set("()[]{},:;")
SPOKEN = {tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING}
if sys.version_info >= (3, 12):
    SPOKEN.add(tokenize.FSTRING_START)
EMPTY_NAMES = set(
    "one found some asked shown given held known chosen named taken wanted made what".split()  # noqa: SIM905
)
WITH_HEADER = (ast.If, ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)
UNCOUNTED = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
UNCOUNTED_BLOCKS = (ast.Try, ast.TryStar, ast.Match)
Position = tuple[int, int]
_PACKED_LINE = re.compile(r"^\s+\*\(\(|# fmt: ?(?:skip|off)", re.MULTILINE)


@attrs.define
class Figures:
    """Counts over some files."""

    weights: list[int] = attrs.field(factory=list)
    packed_forms: int = 0
    comment_lines: int = 0
    code_lines: int = 0
    empty_names: int = 0

    def add(self, other: "Figures") -> None:
        self.weights += other.weights
        self.packed_forms += other.packed_forms
        self.comment_lines += other.comment_lines
        self.code_lines += other.code_lines
        self.empty_names += other.empty_names

    @property
    def words(self) -> int:
        return sum(self.weights)

    @property
    def mean(self) -> float:
        """The mean number of words per statement."""
        return self.words / len(self.weights)

    @property
    def ninth_decile(self) -> int:
        """The 90th percentile of words per statement."""
        return sorted(self.weights)[int(0.9 * len(self.weights))]

    @property
    def packed(self) -> float:
        """Packed forms in 1,000 lines of code."""
        return 1000 * self.packed_forms / self.code_lines

    @property
    def comments(self) -> float:
        """Comment-only lines per 1,000 lines of code."""
        return 1000 * self.comment_lines / self.code_lines


def figures_of(folder: Path) -> Figures:
    """Return the figures of all Python files in a folder."""
    figures = Figures()
    for file in sorted(folder.rglob("*.py")):
        figures.add(_figures_of_file(file))
    return figures


@functools.cache
def _figures_of_file(file: Path) -> Figures:
    text = file.read_text(encoding="utf-8")
    figures = Figures()
    nodes = list(ast.walk(ast.parse(text)))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    words = [token for token in tokens if token.type in SPOKEN and token.string not in SILENT]
    positions = [token.start for token in words]
    figures.weights += _weights(nodes, positions)
    figures.packed_forms += sum(map(_is_packed, nodes))
    figures.packed_forms += len(_PACKED_LINE.findall(text))
    figures.code_lines += len({token.start[0] for token in tokens if token.type in SPOKEN})
    for token in tokens:
        is_alone = not token.line[: token.start[1]].strip()
        if token.type == tokenize.COMMENT and is_alone:
            figures.comment_lines += 1
        if token.type == tokenize.NAME and token.string in EMPTY_NAMES:
            figures.empty_names += 1
    return figures


def _weights(nodes: Iterable[ast.AST], positions: list[Position]) -> Iterator[int]:
    """Yield the number of words of each statement."""
    for node in nodes:
        if not isinstance(node, ast.stmt) or isinstance(node, UNCOUNTED + UNCOUNTED_BLOCKS):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        end: Position = (node.end_lineno or 0, node.end_col_offset or 0)
        if isinstance(node, WITH_HEADER):
            end = (node.body[0].lineno, node.body[0].col_offset)
        begin = (node.lineno, node.col_offset)
        yield bisect.bisect_left(positions, end) - bisect.bisect_left(positions, begin)


def _is_packed(node: ast.AST) -> bool:
    """Return whether a node packs several thoughts into one statement."""
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)
    if isinstance(node, ast.IfExp):
        parts = (node.body, node.orelse, node.test)
        return any(isinstance(part, ast.IfExp) for part in parts)
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(part, ast.IfExp) for part in ast.walk(node))
    if isinstance(node, ast.AugAssign):
        return isinstance(node.value, ast.Compare)
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return len(node.generators) > 2
    return False


if __name__ == "__main__":
    for name in sys.argv[1:]:
        figures = figures_of(Path(name))
        print(f"{name}: {figures.words} words, {figures.mean:.2f} a statement")
        print(f"  90 % at most {figures.ninth_decile}, empty names {figures.empty_names}")
        print(f"  packed {figures.packed:.1f}, comments {figures.comments:.0f} in 1,000 lines")
