"""Build acvp, install it alone in a clean environment and use it as a new user does: `python -m tests.smoke`.

Needs only Python: no test library, no environment of this project. The variable PIP_ARGS goes to pip, as in the
Makefile.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PIP_ARGS = shlex.split(os.environ.get("PIP_ARGS", ""))
MAX_MB = {"*.whl": 25.0, "*.tar.gz": 25.0}
"""The weights that come with acvp take 19 MB of each."""
ALLOWED = re.compile(r"(src/acvp|acvp|docs|acvp-[^/]+\.dist-info)/|[^/]+$")
"""What a built file may contain: the package, its documentation, its metadata, and files at the top."""
SMOKE = ["--preset", "smoke", "--device", "cpu"]
WINDOWS = ["--horizon", "3", "--windows", "2", "--shuffled-windows", "0", "--videos", "1"]
LOADS = """
import gymnasium, acvp
print(acvp.load("run").about.env_id, acvp.load("freeway").about.env_id)
env = gymnasium.make("acvp.envs:acvp/Toy-v0")
env.reset(seed=0)
env = gymnasium.make("acvp/Imagined-v0", predictor="run", data="store")
env.reset(seed=0)
env.step(0)
"""


def run(*command: str | Path, cwd: Path, exit_code: int = 0) -> str:
    """Run a command, require its exit code, and return all that it printed."""
    print("+", shlex.join(map(str, command)), flush=True)
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != exit_code:
        raise SystemExit(f"{done.stdout}\nexit code {done.returncode}, expected {exit_code}")
    return done.stdout


def environment(folder: Path) -> Path:
    """Make a virtual environment and return its bin folder."""
    venv.create(folder, with_pip=True)
    return folder / "bin"


def build(folder: Path) -> Path:
    """Build the sdist and, from it, the wheel; check both and return the wheel."""
    python = environment(folder / "builder") / "python"
    run(python, "-m", "pip", "install", "--quiet", *PIP_ARGS, "build", cwd=folder)
    run(python, "-m", "build", "--outdir", folder / "dist", ROOT, cwd=folder)
    for pattern, limit in MAX_MB.items():
        (built,) = (folder / "dist").glob(pattern)
        check_size(built, limit)
        check_contents(built)
    (wheel,) = (folder / "dist").glob("*.whl")
    check_links(wheel)
    return wheel


def check_size(built: Path, limit: float) -> None:
    """Require that a built file stays below its limit (MB)."""
    size = built.stat().st_size / 1e6
    print(f"{built.name}: {size:.1f} MB of at most {limit:g}")
    if size > limit:
        raise SystemExit(f"{built.name} is too large")


def check_contents(built: Path) -> None:
    """Require that a built file holds the package and nothing of tests, results and benchmarks."""
    if built.suffix == ".whl":
        names = zipfile.ZipFile(built).namelist()
    else:
        with tarfile.open(built) as archive:
            names = [name.partition("/")[2] for name in archive.getnames()]
    strangers = [name for name in names if not ALLOWED.match(name)]
    if strangers:
        raise SystemExit(f"{built.name} should not contain {strangers[:5]}")


def check_links(wheel: Path) -> None:
    """Require a description, which a package index shows, and that it has no link to a file of the repository."""
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    text = archive.read(metadata).decode()
    dead = re.findall(r"\]\((?!https?:)[^)]*\)", text)
    if "# acvp" not in text or dead:
        raise SystemExit(f"{wheel.name} has no description, or one with links that lead nowhere: {dead[:5]}")


def use(bin_folder: Path, folder: Path, version: str) -> None:
    """Record, train, evaluate, load and play; what needs an extra names it."""
    acvp = bin_folder / "acvp"
    if run(acvp, "--version", cwd=folder).split() != ["acvp", version]:
        raise SystemExit(f"acvp --version does not print {version}")
    run(
        acvp, "collect", "--env-id", "acvp/Toy-v0", "--frames", "200", "--max-steps", "20", "--out", "store", cwd=folder
    )
    run(acvp, "data", "verify", "store", "--replay", cwd=folder)
    run(acvp, "train", "--data", "store", "--model", "pixel", *SMOKE, "--run", "run", cwd=folder)
    run(acvp, "evaluate", "--predictors", "run", "--data", "store", *WINDOWS, cwd=folder)
    print(run(bin_folder / "python", "-c", LOADS, cwd=folder), end="")
    play(acvp, folder, "--predictors", "run", "--data", "store")
    play(acvp, folder, "--policy", "agent:freeway")  # an agent that comes with acvp, without Stable-Baselines3
    refused(acvp, folder, "agents", "agent", "train", "--env-id", "toy", "--run", "agent")
    refused(acvp, folder, "export", "export", "--predictor", "run", "--onnx", "onnx")
    refused(acvp, folder, "minari", "data", "export", "store", "--format", "minari", "--out", "exported")


def refused(acvp: Path, folder: Path, extra: str, *arguments: str) -> None:
    """Require that a command ends with exit code 2 and names the extra that it needs."""
    said = run(acvp, *arguments, cwd=folder, exit_code=2)
    if f"pip install 'acvp[{extra}]'" not in " ".join(said.split()):
        raise SystemExit(f"the extra {extra} is not named: {said}")


def play(acvp: Path, folder: Path, *arguments: str) -> None:
    """Start the play server, ask it for its page once, and stop it."""
    command = [str(acvp), "play", "--no-browser", *arguments]
    print("+", shlex.join(map(str, command)), flush=True)
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    try:
        said = ""
        while not (address := re.search(r"http://127\.0\.0\.1:\d+/", said)):
            if not (line := server.stdout.readline()):
                raise SystemExit(f"{said}\nthe play server has ended")
            said += line
        with urllib.request.urlopen(address[0], timeout=60) as answer:
            if answer.status != 200 or b"<title>" not in answer.read():
                raise SystemExit(f"{address[0]} has no page")
        server.send_signal(signal.SIGINT)
        if server.wait(timeout=60) != 130:
            raise SystemExit(f"the play server ended with {server.returncode}")
    finally:
        server.kill()
        server.wait()


def main() -> int:
    """Build, install and use; return 0 or leave with a message."""
    with tempfile.TemporaryDirectory(prefix="acvp-smoke-") as name:
        folder = Path(name)
        wheel = build(folder)
        bin_folder = environment(folder / "bare")
        pip = [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", *PIP_ARGS]
        run(*pip, "-c", ROOT / "constraints.txt", wheel, cwd=folder)
        (folder / "user").mkdir()
        use(bin_folder, folder / "user", wheel.name.split("-")[1])
    print("a bare install records, trains, evaluates, loads and plays")
    return 0


if __name__ == "__main__":
    sys.exit(main())
