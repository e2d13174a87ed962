"""The recipes for engines without a source of their own: they compile, and what they import of ours exists."""

import ast
import re

import pytest

import seorep_async.shards
from seorep_async import integrations

RECIPES = re.findall(r"\*\*(\w+)\*\*.*?```python\n(.*?)```", integrations.__doc__ or "", re.DOTALL)


def test_there_is_a_recipe_for_each_engine() -> None:
    assert [name for name, _ in RECIPES] == ["Dask", "Ray", "Prefect", "Airflow"]


@pytest.mark.parametrize(("engine", "code"), RECIPES, ids=[name for name, _ in RECIPES])
def test_a_recipe_has_six_lines_and_names_what_exists(engine: str, code: str) -> None:
    tree = ast.parse(code)
    ours = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "seorep_async.shards"]
    assert {alias.name for node in ours for alias in node.names} <= set(seorep_async.shards.__all__)
    assert ours
    assert len([line for line in code.splitlines() if line.strip()]) <= 7
