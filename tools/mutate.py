"""How many small faults do the tests notice? python tools/mutate.py [--mutants 500] [--folders a,b] [--minutes 60]

Takes places in `src/` at random (`--seed`), changes one operator, comparison, number or condition each, in a copy of
the tree, and runs the tests of the folder until one fails. A mutant is killed when one fails or takes too long.
Prints survivors as they are found and the kill rate per folder at the end; nothing in the working tree is touched.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = {
    "schedule": ["tests/schedule", "tests/validate/test_rules.py", "tests/algorithms/test_baselines.py"],
    "": ["tests/test_planning.py", "tests/test_collectives.py", "tests/test_units.py", "tests/test_ragged.py"],
}
SECONDS = 240  # of the tests of one mutant; three times what they take on two idle cores
# The package under test is the copy, not the one that is installed for editing.
BOOT = (
    "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]; "
    "sys.path.insert(0, 'src'); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
)
SWAPS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def places(tree: ast.AST) -> list[int]:
    """Numbers, in the order of a walk, of nodes that can be changed; not in annotations, raises or docstrings."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.arg | ast.AnnAssign):
            parts.append(node.annotation)
        if isinstance(node, ast.FunctionDef):
            parts.append(node.returns)
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
            parts.append(node)
        for part in filter(None, parts):
            skipped |= {id(inner) for inner in ast.walk(part)}
    return [n for n, node in enumerate(ast.walk(tree)) if id(node) not in skipped and changes(node)]


def changes(node: ast.AST) -> bool:
    """Whether a node can be changed."""
    if isinstance(node, ast.BinOp):
        return type(node.op) in SWAPS
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in SWAPS
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return isinstance(node, ast.BoolOp | ast.If | ast.IfExp)


def mutated(tree: ast.Module, place: int) -> tuple[str, int]:
    """The source with the node at `place` changed, and its line."""
    made = copy.deepcopy(tree)
    node = list(ast.walk(made))[place]
    if isinstance(node, ast.BinOp):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.BoolOp):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Constant):
        assert isinstance(node.value, int | float)
        node.value = node.value + 1
    elif isinstance(node, ast.If | ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    return ast.unparse(ast.fix_missing_locations(made)), getattr(node, "lineno", 0)


def killed(tree: Path, folder: str) -> bool:
    """Whether the tests of a folder notice."""
    tests = TESTS.get(folder, [f"tests/{folder}"])
    here = ["tests/test_tiny.py", *(test for test in tests if (tree / test).exists())]
    words = [sys.executable, "-c", BOOT, "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *here]
    try:
        return subprocess.run(words, cwd=tree, capture_output=True, timeout=SECONDS).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def main() -> None:
    """Sample, run, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--folders", default="", help="comma-separated folders of src/interlock; default: all")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no mutant after so many")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        tree = Path(made, "tree")
        skip = shutil.ignore_patterns(".git", "build", ".venv", ".hypothesis", "__pycache__", "results")
        shutil.copytree(ROOT, tree, ignore=skip)
        import interlock._native._core as core

        shutil.copy(str(core.__file__), tree / "src" / "interlock" / "_native")
        sources = sorted((tree / "src" / "interlock").glob("**/*.py"))
        asked = [word for word in options.folders.split(",") if word]
        found = []
        for file in sources:
            inside = file.relative_to(tree / "src" / "interlock").parts
            folder = inside[0] if len(inside) > 1 else ""
            if not asked or folder in asked:
                parsed = ast.parse(file.read_text())
                found += [(folder, file, parsed, place) for place in places(parsed)]
        random.Random(options.seed).shuffle(found)
        total, dead = Counter[str](), Counter[str]()
        for folder in sorted({row[0] for row in found}):
            if killed(tree, folder):
                sys.exit(f"the tests of {folder or 'the top folder'} fail before anything is changed")
        for folder, file, parsed, place in found[: options.mutants]:
            if time.monotonic() - start > 60 * options.minutes:
                break
            before = file.read_text()
            text, line = mutated(parsed, place)
            file.write_text(text)
            noticed = killed(tree, folder)
            file.write_text(before)
            total[folder] += 1
            dead[folder] += noticed
            if not noticed:
                print(f"survived: {file.relative_to(tree)}:{line}", flush=True)
    for folder, count in sorted(total.items()):
        print(f"{folder or 'top'}: {dead[folder]} of {count} killed ({100 * dead[folder] / count:.0f} %)")
    print(f"all: {sum(dead.values())} of {sum(total.values())} killed, seed {options.seed}")


if __name__ == "__main__":
    main()
