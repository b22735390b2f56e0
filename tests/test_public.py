"""The public names: there, documented, and imported only when asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import acvp


def test_public_names() -> None:
    assert {"load", "rollout", "EpisodeStore", "__version__"} == set(acvp.__all__)
    for name in acvp.__all__:
        assert getattr(acvp, name) is not None


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lode'; it has EpisodeStore, load, rollout"):
        _ = acvp.lode


def test_import_acvp_does_not_import_torch() -> None:
    code = "import sys, acvp; acvp.EpisodeStore; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_help_of_train_teaches_without_torch() -> None:
    code = "import sys, acvp.cli.main as m\ntry: m.main(['train', '--help'])\nfinally: sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    for words in ("--data", "--model", "--preset", "--run", "--resume", "--device", "--minutes", "(default: cpu)"):
        assert words in done.stdout
