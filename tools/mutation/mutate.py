"""How many small faults do the tests notice? python tools/mutation/mutate.py [--mutants 500] [--seed 0] [--work DIR]

Takes places in `src/` at random and changes one operator, comparison, number or condition each. All of the sample go
into one copy of the tree, each asleep behind a switch, so that imports are paid once: a first run of plain `pytest`
finds which tests reach which mutant, then every mutant is tried in a fork of one loaded process, by the tests that
reach it, cheapest first and those of its own folder before all others, until one fails. What runs at import (constants
of modules, defaults) is tried in a process of its own.

A mutant is killed when a test fails or takes too long; one that no test reaches survives. `--seconds` is the most that
the tests of its own folder took in the first run, a quarter of it what others took: a survivor has survived those. A
log in `--work` makes it resumable; `--tests` then takes new files of tests over, and tries the survivors again. Never
report the sample that tests were written for: draw another. `equivalent.json` names survivors of the stored sample
that no test can notice, with the reason; they are counted apart.
`--share` of the sample is shared equally by `--folders`, those that promise a kill rate; the others have the rest.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
COUNTS = ("sampled", "tried", "killed", "not reached", "equivalent")
PROMISED = ("validate", "simulate", "cost", "schedule", "algorithms")
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


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one node of one file."""

    number: int
    file: str
    folder: str  # of src/interlock; "" for its own files
    place: int  # in a walk of the file's tree
    line: int
    before: str
    after: str
    early: bool  # runs when the module is imported


def changed(node: ast.AST) -> ast.AST | None:
    """The node with its fault, or None if it has none to offer."""
    made = copy.copy(node)
    if isinstance(made, ast.BinOp | ast.BoolOp) and type(made.op) in SWAPS:
        made.op = SWAPS[type(made.op)]()
    elif isinstance(made, ast.Compare) and type(made.ops[0]) in SWAPS:
        made.ops = [SWAPS[type(made.ops[0])](), *made.ops[1:]]
    elif isinstance(made, ast.Constant) and type(made.value) in (int, float):
        made.value += 1
    elif isinstance(made, ast.If | ast.IfExp):
        made.test = ast.UnaryOp(ast.Not(), made.test)
    else:
        return None
    return made


def places(tree: ast.AST) -> list[tuple[int, ast.AST, bool]]:
    """Where a walk meets nodes that can be changed, and whether they run at import.

    Not in annotations, patterns, errors, assertions or words.
    """
    skipped: set[int] = set()
    late: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.arg | ast.AnnAssign):
            parts.append(node.annotation)
        if isinstance(node, ast.FunctionDef):
            parts.append(node.returns)
            late |= {id(inner) for part in node.body for inner in ast.walk(part)}
        if isinstance(node, ast.Lambda):
            late |= {id(inner) for inner in ast.walk(node.body)}
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.pattern):
            parts.append(node)
        for part in filter(None, parts):
            skipped |= {id(inner) for inner in ast.walk(part)}
    walked = enumerate(ast.walk(tree))
    return [(n, node, id(node) not in late) for n, node in walked if id(node) not in skipped and changed(node)]


def sampled(root: Path, mutants: int, seed: int, share: float, promised: list[str]) -> list[Mutant]:
    """A sample of all places: shares of the folders as the module says."""
    by_folder: dict[str, list[Mutant]] = defaultdict(list)
    for file in sorted((root / "src" / "interlock").glob("**/*.py")):
        inside = file.relative_to(root / "src" / "interlock").parts
        folder = inside[0] if len(inside) > 1 else ""
        for place, node, early in places(ast.parse(file.read_text())):
            shown = node.test if isinstance(node, ast.If | ast.IfExp) else node
            after = changed(node)
            assert after is not None
            made = after.test if isinstance(after, ast.If | ast.IfExp) else after
            words = (ast.unparse(shown), ast.unparse(made))
            name = str(file.relative_to(root))
            by_folder[folder].append(Mutant(0, name, folder, place, getattr(node, "lineno", 0), *words, early))
    dice = random.Random(seed)
    each = int(mutants * share) // len(promised)
    chosen = [row for folder in promised for row in dice.sample(by_folder[folder], each)]
    others = [row for folder, rows in sorted(by_folder.items()) if folder not in PROMISED for row in rows]
    chosen += dice.sample(others, mutants - len(chosen))
    return [Mutant(n, *list(asdict(row).values())[1:]) for n, row in enumerate(chosen)]


class Switched(ast.NodeTransformer):
    """Puts mutants beside what they change."""

    def __init__(self, mutant_by_node: dict[int, Mutant], marker: int | None) -> None:
        self.mutant_by_node = mutant_by_node
        self.marker = marker

    def visit(self, node: ast.AST) -> ast.AST:
        mutant = self.mutant_by_node.get(id(node))
        node = self.generic_visit(node)
        if self.marker is not None and isinstance(node, ast.FunctionDef):
            asked = ast.Expr(_asked(self.marker))
            has_words = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
            node.body.insert(1 if has_words else 0, asked)
        if mutant is None:
            return node
        fault = changed(node)
        if isinstance(node, ast.If | ast.IfExp):
            assert isinstance(fault, ast.If | ast.IfExp)
            node.test = ast.IfExp(_asked(mutant.number), fault.test, node.test)
            return node
        assert isinstance(node, ast.expr) and isinstance(fault, ast.expr)
        return ast.IfExp(_asked(mutant.number), fault, node)


def _asked(number: int) -> ast.expr:
    return ast.Call(ast.Name("__mutant__", ast.Load()), [ast.Constant(number)], [])


def prepare(work: Path, mutants: list[Mutant]) -> None:
    """A copy of the tree with the mutants in it, and an environment that imports it."""
    tree = work / "tree"
    skip = shutil.ignore_patterns(".git", "build", ".venv", ".hypothesis", "__pycache__")
    shutil.copytree(ROOT, tree, ignore=skip)
    if (ROOT.parent / "shared").exists():
        (work / "shared").symlink_to((ROOT.parent / "shared").resolve())
    import interlock._native._core as core

    shutil.copy(str(core.__file__), tree / "src" / "interlock" / "_native")
    by_file: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_file[mutant.file].append(mutant)
    for name, rows in by_file.items():
        parsed = ast.parse((tree / name).read_text())
        walked = list(ast.walk(parsed))
        marker = marker_of(rows[0]) if any(row.early for row in rows) else None
        made = Switched({id(walked[row.place]): row for row in rows}, marker).visit(parsed)
        (tree / name).write_text(ast.unparse(ast.fix_missing_locations(made)) + "\n")
    shutil.copy(HERE / "switch.py", tree / "src" / "interlock" / "_mutant.py")
    package = tree / "src" / "interlock" / "__init__.py"
    parsed = ast.parse(package.read_text())
    parsed.body.insert(1, ast.Import([ast.alias("interlock._mutant")]))  # after the docstring
    package.write_text(ast.unparse(ast.fix_missing_locations(parsed)) + "\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(work / "venv")], check=True)
    folder = next((work / "venv" / "lib").glob("python*")) / "site-packages"
    paths = [str(tree / "src"), str(HERE), *(path for path in sys.path if "site-packages" in path)]
    (folder / "mutation.pth").write_text("\n".join(paths) + "\n")
    command = work / "venv" / "bin" / "interlock"
    lines = [f"#!{work}/venv/bin/python", "from interlock.cli.main import main", "main()"]
    command.write_text("\n".join(lines) + "\n")
    command.chmod(0o755)


def marker_of(mutant: Mutant) -> int:
    """What the functions of a file with early mutants say when they are entered."""
    return -2 - mutant.number


def pytest(work: Path, words: list[str], timeout_s: float | None = None, **environment: str) -> int:
    """Run pytest in the copy."""
    command = [str(work / "venv" / "bin" / "python"), "-m", "pytest", "-q", "-p", "plugin", *words]
    path = f"{work / 'venv' / 'bin'}:{os.environ['PATH']}"
    with (work / "pytest.txt").open("a") as out:
        running = subprocess.Popen(
            command,
            cwd=work / "tree",
            env={**os.environ, "PATH": path, **environment},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            return running.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return 124
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, 9)
            running.wait()


def chosen_tests(mutants: list[Mutant], work: Path, seconds: float) -> dict[int, tuple[list[str], float]]:
    """The tests of every mutant, in order, and the seconds they took."""
    took: dict[str, float] = {}
    for line in (work / "hits.seconds").read_text().splitlines():
        name, value = line.split("\t")
        took[name] = float(value)
    failed = set((work / "hits.failed").read_text().splitlines()) if (work / "hits.failed").exists() else set()
    reach: dict[int, set[str]] = defaultdict(set)
    for line in (work / "hits").read_text().splitlines():
        number, name = line.split("\t")
        reach[int(number)].add(name)
    first = {row.file: row for row in reversed(mutants)}
    chosen = {}
    for mutant in mutants:
        own = f"tests/{mutant.folder}/" if mutant.folder else "tests/test_"
        found = reach[marker_of(first[mutant.file])] if mutant.early else reach[mutant.number]
        found = {name for name in found if name in took and name not in failed}
        if mutant.early:
            found |= {name for name in took if name.startswith(own) and name not in failed}
        names, sum_s = [], 0.0
        for is_own, share in ((True, 1.0), (False, 0.25)):
            spent_s = 0.0
            for name in sorted((n for n in found if n.startswith(own) is is_own), key=lambda name: (took[name], name)):
                if not names or spent_s + took[name] <= share * seconds:
                    names.append(name)
                    spent_s += took[name]
            sum_s += spent_s
        chosen[mutant.number] = (names, sum_s)
    return chosen


def tried(work: Path) -> dict[int, dict[str, object]]:
    """What the log says."""
    log = work / "log.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    known: dict[int, dict[str, object]] = {}
    for row in rows:  # a survivor may have been tried again, by more tests
        known[row["mutant"]] = {**row, "tests": row["tests"] + known.get(row["mutant"], {}).get("tests", 0)}
    return known


def try_all(mutants: list[Mutant], work: Path, seconds: float) -> None:
    """Every mutant that the log does not have, and those that survived fewer seconds by the tests left."""
    log = work / "log.jsonl"
    chosen = chosen_tests(mutants, work, seconds)
    jobs = []
    for number, row in tried(work).items():
        if row["outcome"] != "survived" or row["cap_s"] >= seconds:
            del chosen[number]
        else:
            before = set(chosen_tests(mutants, work, row["cap_s"])[number][0])
            chosen[number] = ([name for name in chosen[number][0] if name not in before], chosen[number][1])
    for mutant in mutants:
        names, sum_s = chosen.get(mutant.number, ([], 0.0))
        if mutant.number in chosen and not names:
            note(log, mutant.number, "survived", "", 0, seconds, 0.0)
        elif names and not mutant.early:
            jobs.append({"mutant": mutant.number, "tests": names, "limit_s": 3 + 3 * sum_s, "cap_s": seconds})
    random.Random(0).shuffle(jobs)  # what was tried when time runs out is a sample too
    known = tried(work)
    jobs.sort(key=lambda job: (mutants[job["mutant"]].folder not in PROMISED, job["mutant"] not in known))
    if jobs:
        (work / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
        pytest(work, ["-n", "0"], MUTANT_JOBS=str(work / "jobs.jsonl"), MUTANT_LOG=str(log))
    for mutant in mutants:
        names, sum_s = chosen.get(mutant.number, ([], 0.0))
        if not mutant.early or not names:
            continue
        (work / "tests.txt").write_text("\n".join(names) + "\n")
        files = list(dict.fromkeys(name.split("::")[0] for name in names))
        start = time.monotonic()
        words = ["-x", "-n", "0", *files]
        code = pytest(work, words, 300 + 40 * sum_s, MUTANT=str(mutant.number), MUTANT_TESTS=str(work / "tests.txt"))
        outcome = {0: "survived", 124: "too long"}.get(code, "killed")
        note(log, mutant.number, outcome, f"pytest exit {code}", len(names), seconds, time.monotonic() - start)


def note(log: Path, mutant: int, outcome: str, by: str, tests: int, cap_s: float, took_s: float) -> None:
    """A line of the log, as the plugin writes them too."""
    said = {"mutant": mutant, "outcome": outcome, "by": by, "tests": tests, "cap_s": cap_s, "seconds": round(took_s, 2)}
    with log.open("a") as file:
        file.write(json.dumps(said) + "\n")


def tell(mutants: list[Mutant], work: Path, target: Path | None, seed: int) -> None:
    """Survivors and the kill rate per folder, on the terminal and as a stored result."""
    known = tried(work)
    reasons = json.loads((HERE / "equivalent.json").read_text())
    rows: dict[str, dict[str, object]] = {}
    survivors = []
    for mutant in mutants:
        row = rows.setdefault(mutant.folder or "(top)", dict.fromkeys(COUNTS, 0))
        row["sampled"] += 1
        if (found := known.get(mutant.number)) is None:
            continue
        row["tried"] += 1
        row["killed"] += found["outcome"] != "survived"
        row["not reached"] += found["tests"] == 0
        if found["outcome"] == "survived":
            change = f"{mutant.before} -> {mutant.after}"
            why = reasons.get(f"{mutant.file}:{mutant.line}: {change}", "")
            row["equivalent"] += bool(why)
            survivors.append({"place": f"{mutant.file}:{mutant.line}", "change": change, "equivalent": why})
            print(f"{mutant.number} {mutant.file}:{mutant.line}: {change}  [{found['tests']} tests] {why}")
    for folder, row in rows.items():
        print(f"{folder}: {row}")
    if target is not None:
        sys.path.insert(0, str(ROOT / "benchmarks"))
        from common import machine

        made_on = {**machine(), "commit": (work / "commit").read_text()}  # of the copy, not of now
        facts = {"benchmark": "mutation", "machine": made_on, "seed": seed}
        sample = {"seed": seed, "commit": made_on["commit"]}
        listed = [{"folder": folder, **sample, **row} for folder, row in rows.items() if row["tried"]]
        kept = json.loads(target.read_text()) if target.exists() else {"rows": [], "survivors": []}
        is_new = {folder for folder, row in rows.items() if row["tried"]}  # the others are of earlier samples
        listed += [row for row in kept["rows"] if row["folder"] not in is_new]
        survivors += [row for row in kept["survivors"] if folder_of(row["place"]) not in is_new]
        target.write_text(json.dumps({**facts, "rows": listed, "survivors": survivors}, indent=1) + "\n")


def folder_of(place: str) -> str:
    """Of src/interlock, as rows name it."""
    inside = Path(place).relative_to("src/interlock").parts
    return inside[0] if len(inside) > 1 else "(top)"


def main() -> None:
    """Sample, map, try, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=0.6, help="of the folders that promise a kill rate")
    parser.add_argument("--folders", default=" ".join(PROMISED), help="that have the share, by spaces")
    parser.add_argument("--seconds", type=float, default=20, help="of tests per mutant")
    parser.add_argument("--workers", default="2", help="of the first run")
    parser.add_argument(
        "--tests",
        default="",
        help="which to run, by spaces; all by default, fewer kill fewer. Later: files that are new",
    )
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "interlock-mutation")
    parser.add_argument("--json", type=Path, help="where to store the result")
    parser.add_argument("--only-tell", action="store_true", help="what the log has; try nothing")
    options = parser.parse_args()
    work = options.work.resolve()
    if not (work / "mutants.json").exists():
        mutants = sampled(ROOT, options.mutants, options.seed, options.share, options.folders.split())
        work.mkdir(parents=True)
        prepare(work, mutants)
        git = ["git", "-C", str(ROOT), "merge-base", "HEAD", "main"]
        (work / "commit").write_text(subprocess.run(git, capture_output=True, text=True).stdout[:7])
        (work / "mutants.json").write_text(json.dumps([asdict(row) for row in mutants]))
    mutants = [Mutant(**row) for row in json.loads((work / "mutants.json").read_text())]
    if not (work / "mapped").exists():
        for name in ("hits", "hits.seconds", "hits.failed"):
            (work / name).unlink(missing_ok=True)
        pytest(work, ["-n", options.workers, *options.tests.split()], MUTANT_HITS=str(work / "hits"))
        (work / "mapped").touch()
    elif options.tests:
        for name in options.tests.split():
            shutil.copy(ROOT / name, work / "tree" / name)
        pytest(work, ["-n", options.workers, *options.tests.split()], MUTANT_HITS=str(work / "hits"))
        killed = [row for row in tried(work).values() if row["outcome"] != "survived"]  # others: once more
        (work / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in killed))
    if not options.only_tell:
        try_all(mutants, work, options.seconds)
    tell(mutants, work, options.json, options.seed)


if __name__ == "__main__":
    main()
