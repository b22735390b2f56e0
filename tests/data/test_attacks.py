"""Stores made to do harm, with the right checksums: each is refused in our own words, in little memory, at once."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
import resource
import struct
import subprocess
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acvp.cli.main import main
from acvp.data.episode import compress, parse, serialize
from acvp.data.merge import split
from acvp.data.store import EpisodeStore, IndexEntry, parse_entry
from acvp.data.verify import verify
from acvp.data.windows import Window, Windows
from acvp.durable import seal, unseal
from acvp.errors import UserError
from acvp.seeding import generator
from tests.data.answers import answer_episode, answer_store
from tests.data.test_damage import LENGTHS, copy_of, part
from tests.faults import ROOT, Trials, counted


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with nothing wrong."""
    folder = tmp_path_factory.mktemp("sound") / "store"
    answer_store(folder, LENGTHS)
    return folder


def attack_random(data: bytes, rng: np.random.Generator) -> bytes:
    """Change up to twenty bytes, half of the time in the first thousand, where the header is."""
    mutant = bytearray(data)
    for _ in range(rng.integers(1, 21)):
        mutant[rng.integers(min(len(mutant), 1000) if rng.integers(2) else len(mutant))] = rng.integers(256)
    return bytes(mutant)


NUMBERS = ["0", "-1", "1", "17", "4096", "4097", "65536", str(2**31), str(2**62), str(2**64), "1e400", "NaN", "null"]
WORDS = ['"F64"', '"BF16"', '"F8_E4M3"', '"BOOL"', '"I64"', '"U8"', '"I16"', "[]", "{}", '""', "true"]


def attack_header(data: bytes, rng: np.random.Generator) -> bytes:
    """Put another number or word in the place of one in the header."""
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size].decode()
    kind, others = ((r"(?<![\w.])\d+(?![\w.])", NUMBERS), (r'"[A-Z]\w+"', WORDS))[rng.integers(2)]
    places = list(re.finditer(kind, header))
    place = places[rng.integers(len(places))]
    changed = (header[: place.start()] + others[rng.integers(len(others))] + header[place.end() :]).encode()
    return len(changed).to_bytes(8, "little") + changed + data[8 + size :]


def attack_length(data: bytes, rng: np.random.Generator) -> bytes:
    """Say another length of the header, up to more than there is memory."""
    lengths = [0, 1, len(data), 2**31, 2**40, 2**63, 2**64 - 1, int(rng.integers(len(data)))]
    return struct.pack("<Q", lengths[rng.integers(len(lengths))]) + data[8:]


def attack_nesting(data: bytes, rng: np.random.Generator) -> bytes:
    """A header nested more deeply than any reader goes."""
    deep = b'{"a":' * int(10 ** rng.uniform(2, 5.5))
    return len(deep).to_bytes(8, "little") + deep + data[8:]


@cache
def bomb() -> bytes:
    """A few kilobytes that become 256 MB."""
    return compress(np.zeros((1, 1, 1 << 28), np.uint8))


def attack_chunks(data: bytes, rng: np.random.Generator) -> bytes:
    """Chunks that hold more or less than they should, or say so: up to 2⁵⁰ bytes."""
    episode = answer_episode(1, 35)
    claim = bytes.fromhex("28b52ffde0") + int(2 ** rng.uniform(0, 50)).to_bytes(8, "little") + rng.bytes(30)
    frames = int(rng.integers(1, 40))
    real = compress(np.zeros((frames, 6, 8), np.uint8)) if rng.integers(2) else bomb()
    chunks = [bytes(chunk) for chunk in episode.chunks]
    chunks[rng.integers(len(chunks))] = (claim, real, b"", claim[:9], chunks[0] * 2)[rng.integers(5)]
    return serialize(replace(episode, chunks=tuple(chunks)))


def attack_fields(data: bytes, rng: np.random.Generator) -> bytes:
    """A part that is written well and says impossible things of itself."""
    episode = answer_episode(1, 35)
    values: dict[str, list[Any]] = {
        "height": [1, 4096, 10**9, -1, 0, 6.0, True],
        "width": [1, 4096, 10**9, -1, 0, "8"],
        "frames": [1, 34, 36, 10**12, -1, None],
        "number": [0, -1, 10**30],
        "seed": [-1, 10**4000, None],
        "content": ["", 5, "x" * 10**6],
    }
    name = list(values)[rng.integers(len(values))]
    value = values[name][rng.integers(len(values[name]))]
    palette = [episode.palette, np.zeros((0, 3), np.uint8), np.zeros((), np.uint8), np.zeros((300, 3), np.uint8), None]
    changed = replace(episode, header=replace(episode.header, **{name: value}))
    return serialize(replace(changed, palette=palette[rng.integers(5)]) if rng.integers(2) else changed)


def attack_whole(data: bytes, rng: np.random.Generator) -> bytes:
    """Something else altogether."""
    return (b"", b"\0" * 100, rng.bytes(300), data[: rng.integers(len(data))], data + b"\0", data * 2)[rng.integers(6)]


ON_PARTS = [attack_random, attack_header, attack_length, attack_nesting, attack_chunks, attack_fields, attack_whole]


def attack_part(folder: Path, rng: np.random.Generator) -> None:
    """Put a made part in the place of one, with the right checksum, so that the reader itself is met."""
    enter(folder, ON_PARTS[rng.integers(len(ON_PARTS))](part(folder, 1).read_bytes(), rng))


def enter(folder: Path, data: bytes) -> None:
    """Make data the part of episode 1, and the index tell of it what it tells of itself."""
    part(folder, 1).write_bytes(data)
    entries = [parse_entry(line) for line in (folder / "index.jsonl").read_bytes().splitlines()]
    try:
        entries[1] = IndexEntry.of(parse(data), data)
    except UserError:
        entries[1] = replace(entries[1], sha256=hashlib.sha256(data).hexdigest(), size=max(1, len(data)))
    (folder / "index.jsonl").write_text("".join(entry.to_line() + "\n" for entry in entries))


def attack_index(folder: Path, rng: np.random.Generator) -> None:
    """Lines that are no lines of an index, or tell of impossible episodes."""
    file = folder / "index.jsonl"
    first, *rest = file.read_bytes().splitlines(keepends=True)
    known = json.loads(first)
    name = list(known)[rng.integers(len(known))]
    values: list[Any] = [10**30, 2**41, -1, 0, 1, 0.5, None, "", "zz", "00" * 10**6, [], {}, True, 10**4000]
    value = values[rng.integers(len(values))]
    lines = [
        json.dumps(known | {name: value}).encode(),
        attack_random(first[:-1], rng),
        b"[" * int(10 ** rng.uniform(2, 6)),
        b'{"a":' * int(10 ** rng.uniform(2, 5)) + b"1" + b"}" * 9,
        first[:-1] + b"\n" + first[:-1],
        b"9" * 10**6,
        json.dumps([known]).encode(),
        json.dumps(known | {"more": 1}).encode(),
        rng.bytes(200),
    ]
    file.write_bytes(lines[rng.integers(len(lines))] + b"\n" + b"".join(rest))


def attack_info(folder: Path, rng: np.random.Generator) -> None:
    """A store.json with a right seal and impossible contents."""
    body = unseal((folder / "store.json").read_bytes())
    name = list(body)[rng.integers(len(body))]
    values: list[Any] = [None, 7, -1, 0.5, "x", "", [], {}, [6, 8], [4096, 4096, 3], [10**9, 10**9, 3], [-6, 8, 3]]
    values += [["6", "8", "3"], [6, 8, 1], [[6], 8, 3], {"a": [1]}, "x" * 10**6, [None], 10**30, True, [0, 0, 0]]
    (folder / "store.json").write_bytes(seal(body | {name: values[rng.integers(len(values))]}))


def attack(folder: Path, rng: np.random.Generator) -> None:
    """Six in ten on a part, two on the index, two on store.json."""
    kinds = [attack_part] * 6 + [attack_index] * 2 + [attack_info] * 2
    kinds[rng.integers(10)](folder, rng)


def uses(folder: Path) -> Iterator[Callable[[], object]]:
    """Everything that is done with a store."""
    yield lambda: verify(folder)
    yield lambda: EpisodeStore(folder)
    try:
        store = EpisodeStore(folder)
    except UserError:
        return
    yield lambda: repr(store) + store.digest
    yield lambda: split(store)
    for position in range(len(store)):
        yield lambda position=position: store[position].frames()  # type: ignore[misc]
        yield lambda position=position: repr(store[position])  # type: ignore[misc]
    yield lambda: Windows(store, Window(2, 2)).batch(np.array([0, 25, 40]))
    yield lambda: main(["data", "info", str(folder), "--sheet", str(folder.parent / "sheet.png")])


def verdict(folder: Path) -> str:
    """Empty where every use of a store works or is refused by an error of ours that names a file in it."""
    for use in uses(folder):
        try:
            use()
        except UserError as error:
            if str(folder) not in str(error):
                return f"does not name the file: {error}"
        except IndexError as error:
            if not re.fullmatch(r"window \d+ of \d+", str(error)):
                return traceback.format_exc()
        except Exception:
            return traceback.format_exc()
    return ""


MEMORY = 600 * 2**20
"""Bytes that reading a store of a few kilobytes may take beyond what the program has."""
SECONDS = 20
"""Of a core's time that reading it may take."""


def meet_attacks(sound: Path, folder: Path, first: int, count: int) -> None:
    """In a process of its own: meet attacks one after the other, and say before each which, after each how it went."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    bomb()  # made while there is memory for it
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    for i in range(first, first + count):
        print(f"\n@{i}", flush=True)
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + SECONDS  # ends the process where it hangs
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        attack(copy_of(sound, folder), generator("attack", i))
        print("\n=" + json.dumps(verdict(folder)), flush=True)


def verdicts(sound: Path, folder: Path, count: int) -> list[str]:
    """What became of each attack; a process that dies is named with the attack it died of, the next goes on."""
    found: list[str] = []
    while len(found) < count:
        arguments = map(str, (sound, folder, len(found), count - len(found)))
        done = subprocess.run(
            [sys.executable, "-m", "tests.data.test_attacks", *arguments], cwd=ROOT, capture_output=True, check=False
        )
        found += [json.loads(line[1:]) for line in done.stdout.decode().splitlines() if line.startswith("=")]
        if len(found) < count:
            found.append(f"the process ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    return found


@pytest.mark.slow
@counted("9 mutated parts and indices are refused", quick=40, full=500)
def test_attacks_are_refused(trials: Trials, sound: Path, tmp_path: Path) -> None:
    found: list[str] = []

    def once(i: int, rng: np.random.Generator) -> None:
        if not found:
            found.extend(verdicts(sound, tmp_path / "store", trials.count))
        assert found[i] == ""

    trials.run(once)


def with_chunk(frames: int) -> bytes:
    """Episode 1 with a chunk that holds other than sixteen frames."""
    episode = answer_episode(1, 35)
    return serialize(replace(episode, chunks=(compress(np.zeros((frames, 6, 8), np.uint8)), *episode.chunks[1:])))


@pytest.mark.parametrize("frames", [1, 15, 17])
def test_a_chunk_of_another_length_is_refused(sound: Path, tmp_path: Path, frames: int) -> None:
    """Decoded into too much room, a short one would leave whatever the memory held before."""
    folder = copy_of(sound, tmp_path / "store")
    enter(folder, with_chunk(frames))
    with pytest.raises(UserError, match=r"000001.safetensors: episode 1: chunk 0 is damaged"):
        EpisodeStore(folder)[1].frames()


@pytest.mark.parametrize("name", ["number", "frames", "size"])
def test_a_huge_number_in_the_index_is_refused(sound: Path, tmp_path: Path, name: str) -> None:
    folder = copy_of(sound, tmp_path / "store")
    first, *rest = (folder / "index.jsonl").read_text().splitlines(keepends=True)
    (folder / "index.jsonl").write_text(json.dumps(json.loads(first) | {name: 10**30}) + "\n" + "".join(rest))
    with pytest.raises(UserError, match=r"index.jsonl: line 1 is damaged \(impossible numbers\)"):
        EpisodeStore(folder)
    assert verdict(folder) == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"frame_shape": [10**9, 10**9, 3]},
        {"frame_shape": [6, 8, 4]},
        {"action_meanings": "x" * 10**6},
        {"action_meanings": [1, 2]},
        {"versions": ["1"]},
        {"epsilon": "0.3"},
    ],
)
def test_an_impossible_store_json_is_refused(sound: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = copy_of(sound, tmp_path / "store")
    body = unseal((folder / "store.json").read_bytes())
    (folder / "store.json").write_bytes(seal(body | changes))
    with pytest.raises(UserError, match=r"store.json: "):
        EpisodeStore(folder)


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


def archive(name: str, data: bytes) -> bytes:
    """A zip file, as torch.save and np.savez write them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(name, data)
    return buffer.getvalue()


def payloads(canary: Path) -> Iterator[bytes]:
    """Files that run code in readers that let them."""
    for protocol in (0, 2, 4, 5):
        yield pickle.dumps(Payload(canary), protocol)
    pickled = pickle.dumps(Payload(canary))
    yield archive("archive/data.pkl", pickled)
    yield archive(
        "arr_0.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,)}" + pickled
    )
    yield f"import os; os.mkdir({str(canary)!r})".encode()
    yield f"!!python/object/apply:os.mkdir [{str(canary)!r}]\n".encode()
    yield len(pickled).to_bytes(8, "little") + pickled
    deep = f'{{"py/reduce": [{{"py/function": "os.mkdir"}}, {{"py/tuple": ["{canary}"]}}]}}'
    yield deep.encode() + b"\n"


@pytest.mark.slow
@counted("8 no file of a store runs code", quick=30, full=30)
def test_no_file_runs_code(trials: Trials, sound: Path, tmp_path: Path) -> None:
    """Ten payloads in the place of a part, of the index and of store.json."""
    canary, folder = tmp_path / "canary", tmp_path / "store"
    files = [part(folder, 1), folder / "index.jsonl", folder / "store.json"]
    cases = list(product(payloads(canary), files))

    def once(i: int, rng: np.random.Generator) -> None:
        payload, file = cases[i]
        copy_of(sound, folder)
        file.write_bytes(payload)
        if file == files[0]:
            enter(folder, payload)
        assert verdict(folder) == ""
        assert main(["data", "verify", str(folder)]) == 1
        assert not canary.exists()

    assert len(cases) == trials.count
    trials.run(once)
    pickle.loads(pickle.dumps(Payload(canary)))  # noqa: S301  (the payload does work)
    assert canary.exists()


@pytest.mark.parametrize(
    "named",
    [
        {"env_id": "acvp_evil:Game-v0", "policy": "acvp_evil:play"},
        {"settings": {"import_module": "acvp_evil", "sticky": 0.0, "frame_skip": 1, "max_steps": None}},
    ],
)
def test_a_store_that_names_a_module_does_not_run_it(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: dict[str, Any]
) -> None:
    """Neither reading nor replaying imports what store.json names: that takes the user's own --import."""
    (tmp_path / "acvp_evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    folder = copy_of(sound, tmp_path / "store")
    settings = {"import_module": None, "sticky": 0.0, "frame_skip": 1, "max_steps": None}
    body = unseal((folder / "store.json").read_bytes()) | {"settings": settings}
    (folder / "store.json").write_bytes(seal(body | named))
    assert verdict(folder) == ""
    assert main(["data", "verify", str(folder), "--replay"]) == 2
    assert "acvp_evil" not in sys.modules


if __name__ == "__main__":
    meet_attacks(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
