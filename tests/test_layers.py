"""The direction of imports: each layer may use the ones below it, never its siblings or what is above."""

import ast
from pathlib import Path

import acvp

SOURCE = Path(acvp.__file__).parent

FOUNDATION = (
    "errors actions compat durable seeding runs result_cache checkpoint exits console artifacts harness figures "
    "bootstrap"
)
LAYERS = [
    set(FOUNDATION.split()),
    {"envs"},
    {"data"},
    {"models"},
    {"pixel"},
    {"loaded", "testing", "hub"},
    {"training", "evaluation", "agents"},
    {"control", "analysis", "play"},
    {"report"},
    {"reproduce"},
    {"cli", "api"},
    {"__init__"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ENVS_ALLOWED_IN_DATA = {"collect", "policies", "replay"}


def imports_of(file: Path) -> set[str]:
    """Names of the acvp modules a file imports, dotted, without the leading `acvp.`."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are written out, not relative"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("acvp.") for name in found if name.startswith("acvp.")}


def complaint(file: Path, imported: str) -> str | None:
    """What is wrong with one import, or None."""
    own, other = file.relative_to(SOURCE).parts[0].removesuffix(".py"), imported.split(".")[0]
    if own == other or other == "__version__" or RANK[own] == 0 == RANK[other]:
        return None
    if own == "data" and other == "envs" and file.stem not in ENVS_ALLOWED_IN_DATA:
        return f"data/{file.name} imports {imported}; only {ENVS_ALLOWED_IN_DATA} may"
    if RANK[own] > RANK[other]:
        return None
    return f"{file.relative_to(SOURCE)} imports {imported}, which is not below it"


def test_every_module_has_a_layer() -> None:
    top = {p.name.removesuffix(".py") for p in SOURCE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert top <= RANK.keys()


def test_imports_go_down() -> None:
    files = list(SOURCE.rglob("*.py"))
    complaints = [complaint(file, name) for file in files for name in sorted(imports_of(file))]
    assert len(files) > 10
    assert [c for c in complaints if c] == []


def module_name(file: Path) -> str:
    """Name of a module below acvp, dotted; a package by its own name."""
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def cycles(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import themselves through others: what is left when leaves are taken away again and again."""
    left = {name: set(others) for name, others in graph.items()}
    while leaves := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in leaves}
    return sorted(left)


def test_no_import_cycles_even_inside_functions() -> None:
    files = {module_name(file): file for file in SOURCE.rglob("*.py")}
    graph = {}
    for name, file in files.items():
        found = imports_of(file)
        known = {each if each in files else each.rpartition(".")[0] for each in found}
        graph[name] = (known & files.keys()) - {name}
    assert cycles(graph) == []
    assert cycles(graph | {"errors": {"cli.main"}}) != []


def test_a_wrong_import_is_seen() -> None:
    assert complaint(SOURCE / "envs" / "x.py", "data.store") is not None
    assert complaint(SOURCE / "data" / "x.py", "models.predictor") is not None
    assert complaint(SOURCE / "models" / "x.py", "pixel.config") is not None
    assert complaint(SOURCE / "data" / "windows.py", "envs.make_game") is not None
    assert complaint(SOURCE / "data" / "collect.py", "envs.make_game") is None


def test_no_file_can_run_code_when_loaded() -> None:
    """Promise 8: no pickle, no torch.load, no eval in the package."""
    forbidden = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal"}
    calls = {"eval", "exec", "torch.load", "np.load"}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name.split(".")[0] for alias in node.names} | {getattr(node, "module", None)}
                assert not names & forbidden, f"{file}:{node.lineno}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) in calls:
                safe = any(k.arg == "allow_pickle" and ast.unparse(k.value) == "False" for k in node.keywords)
                assert safe, f"{file}:{node.lineno}: {ast.unparse(node)}"


def test_no_text_file_depends_on_the_encoding_of_the_terminal() -> None:
    """Promise 17: files hold UTF-8, also where the terminal knows ASCII only."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                text = node.func.attr in ("read_text", "write_text")
                assert not text or "encoding" in {k.arg for k in node.keywords}, f"{file}:{node.lineno}"
