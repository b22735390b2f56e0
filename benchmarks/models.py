"""How fast the paper's networks run beside a plain port, and how near the machine's matmul peak.

``python -m benchmarks.models`` runs ours and the plain port of every case in turn, each in a separate process, and
writes ``results/models.json``. Shapes: B batch, T time, C channels, H height, W width, A actions, n hidden units.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models import FeedforwardConfig, Predictor, RecurrentConfig, build_predictor, squared_error_loss, unroll
from acvp.models.devices import keep_freed_memory
from acvp.models.encoder_decoder import sub_pixel_deconvolution
from acvp.models.layers import Pair
from acvp.runs import peak_memory_bytes
from benchmarks.provenance import write_results

ACTIONS = 18
PEAK_SIZE = 3000
"""Rows and columns of the matrices whose product is the machine's peak."""
SAMPLE = 1000
"""Pixels of each result that are compared with the plain port's."""


class PlainPort(nn.Module):
    """The same networks as one would first write them: NCHW, nn.ConvTranspose2d, one frame and one action at a time."""

    def __init__(self, frames: int, recurrent: bool) -> None:
        super().__init__()
        self.frames, self.is_recurrent = frames, recurrent
        pads = ((0, 1), (1, 1), (1, 1), (0, 0))
        convolutions = zip((3 * frames, 64, 128, 128), (64, 128, 128, 128), (8, 6, 6, 4), pads, strict=True)
        self.conv = nn.ModuleList(nn.Conv2d(i, o, k, 2, p) for i, o, k, p in convolutions)
        self.fc = nn.Linear(11264, 2048)
        if recurrent:
            self.from_h = nn.Linear(2048, 8192, bias=False)
            self.from_x = nn.Linear(2048, 8192)
        self.w_enc, self.w_a, self.w_dec = nn.Linear(2048, 2048), nn.Linear(ACTIONS, 2048), nn.Linear(2048, 2048)
        self.reshape = nn.Linear(2048, 11264)
        outputs = zip((128, 128, 128, 3), (4, 6, 6, 8), reversed(pads), strict=True)
        self.deconv = nn.ModuleList(nn.ConvTranspose2d(128, o, k, 2, p) for o, k, p in outputs)

    def take(self, predictor: Predictor) -> "PlainPort":
        """Copy a predictor's weights, which come in the same order."""
        for mine, other in zip(self.parameters(), predictor.parameters(), strict=True):
            assert mine.shape == other.shape, (mine.shape, other.shape)
            mine.data.copy_(other.data)
        return self

    def encode(self, x: Tensor) -> Tensor:
        """Return features (B, n) of frames (B, m·C, H, W)."""
        for layer in self.conv:
            x = functional.relu(layer(x))
        return functional.relu(self.fc(x.flatten(1)))

    def lstm(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return h and c after one more feature (B, n)."""
        gates = self.from_x(x) + self.from_h(h)
        if gates.requires_grad:
            gates.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
        i, f, o, g = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def decode(self, h_enc: Tensor, action: Tensor) -> Tensor:
        """Return the next frame (B, C, H, W) of features (B, n) under action indices (B,)."""
        one_hot = functional.one_hot(action, ACTIONS).float()
        x = functional.relu(self.reshape(self.w_dec(self.w_enc(h_enc) * self.w_a(one_hot)))).view(-1, 128, 11, 8)
        for layer in self.deconv[:-1]:
            x = functional.relu(layer(x))
        frame: Tensor = self.deconv[-1](x)
        return frame

    def predict(self, frames: Tensor, actions: Tensor, predict: int, teacher_forcing: bool) -> Tensor:
        """Return the last ``predict`` frames of a window as ours does, one time step after the other."""
        seen = frames.shape[1] - predict
        past = list(frames[:, :seen].unbind(1))
        h = c = frames.new_zeros(len(frames), 2048)
        predicted: list[Tensor] = []
        if self.is_recurrent:
            for frame in past[:-1]:
                h, c = self.lstm(self.encode(frame), h, c)
        for step in range(predict):
            if self.is_recurrent:
                h, c = self.lstm(self.encode(past[-1]), h, c)
            else:
                h = self.encode(torch.cat(past[-self.frames :], 1))
            predicted.append(self.decode(h, actions[:, seen + step - 1]))
            past.append(frames[:, seen + step] if teacher_forcing else predicted[-1])
        return torch.stack(predicted, 1)


class Case(NamedTuple):
    """One measurement: what is run, on how much, and how much arithmetic that takes."""

    name: str
    """What is run."""
    kind: str
    """'feedforward' or 'recurrent'."""
    batch: int
    """Rows of the batch; a sample is one row, whole window included."""
    predict: int
    """Frames predicted per row."""
    train: bool
    """Whether gradients are computed too."""
    teacher_forcing: bool = False
    """Whether predictions are input to the next step."""
    every_action: bool = False
    """Whether the next frame is predicted under each of the 18 actions."""


CASES = (
    Case("feedforward training, phase 1", "feedforward", 32, 1, True),
    Case("feedforward training, phase 2", "feedforward", 8, 3, True),
    Case("recurrent training, phase 1", "recurrent", 4, 10, True, teacher_forcing=True),
    Case("recurrent training, phase 2", "recurrent", 4, 3, True),
    Case("feedforward training, batch 1", "feedforward", 1, 1, True),
    Case("recurrent training, batch 1", "recurrent", 1, 10, True, teacher_forcing=True),
    Case("feedforward prediction, batch 32", "feedforward", 32, 1, False),
    Case("feedforward prediction, batch 1", "feedforward", 1, 1, False),
    Case("feedforward rollout of 10, batch 1", "feedforward", 1, 10, False),
    Case("recurrent prediction, batch 4", "recurrent", 4, 1, False),
    Case("recurrent rollout of 10, batch 1", "recurrent", 1, 10, False),
    Case("feedforward predict_all, 18 actions, batch 1", "feedforward", 1, 1, False, every_action=True),
    Case("feedforward predict_all, 18 actions, batch 8", "feedforward", 8, 1, False, every_action=True),
    Case("recurrent predict_all, 18 actions, batch 1", "recurrent", 1, 1, False, every_action=True),
)


def config_of(case: Case) -> FeedforwardConfig | RecurrentConfig:
    """Return the paper's configuration for a case."""
    kind = FeedforwardConfig if case.kind == "feedforward" else RecurrentConfig
    return kind.rgb_210x160(actions=ACTIONS)


def flops(case: Case) -> float:
    """Return the multiplications and additions of a case: 2 per weight use forward, 4 more backward.

    Ours is counted, not the plain port's repeated encoding; the first layer needs no gradient of real frames.
    """
    config = config_of(case)
    sizes, hidden = config.sizes(), config.hidden
    area = [height * width for height, width in sizes]
    feedforward = case.kind == "feedforward"
    inputs = (3 * (config.context if feedforward else 1), *config.channels)
    conv = [a * i * o * k**2 for a, i, o, k in zip(area[1:], inputs, config.channels, config.kernels, strict=False)]
    encode = sum(conv) + config.channels[-1] * area[-1] * hidden + (0 if feedforward else 8 * hidden**2)
    between = (config.channels[-1], *config.decoder_channels, 3)
    deconv = zip(area[:0:-1], between, between[1:], config.kernels[::-1], strict=False)
    decode = sum(a * i * o * k**2 for a, i, o, k in deconv) + config.channels[-1] * area[-1] * hidden
    transform = 2 * hidden * config.factors + ACTIONS * config.factors
    real = case.predict if feedforward and case.teacher_forcing else 1 if feedforward else config.context
    real += case.predict - 1 if not feedforward and case.teacher_forcing else 0
    fed = case.predict - 1 if not case.teacher_forcing else 0
    decodes = ACTIONS if case.every_action else case.predict
    forward = (real + fed) * encode + decodes * (decode + transform)
    macs = 3 * forward - real * conv[0] if case.train else forward
    return 2.0 * macs * case.batch


def make_step(case: Case, who: str, seed: int) -> Callable[[], Tensor]:
    """Return ours or the plain port as a function that runs the case once and returns its frames."""
    generator = torch.Generator().manual_seed(seed)
    predictor = build_predictor(config_of(case), generator)
    times = predictor.context + case.predict
    pixels = torch.randint(0, 256, (case.batch, times, 210, 160, 3), generator=generator).to(torch.uint8)
    frames = predictor.normalizer.to_float(pixels)  # (B, T, C, H, W), channels last in memory
    actions = torch.randint(0, ACTIONS, (case.batch, times - 1), generator=generator)
    if who == "ours":
        return _ours(case, predictor, frames, actions)
    recurrent = case.kind == "recurrent"
    plain = PlainPort(1 if recurrent else predictor.context, recurrent).take(predictor)
    return _plain(case, plain, frames.contiguous(), actions)


def _ours(case: Case, predictor: Predictor, frames: Tensor, actions: Tensor) -> Callable[[], Tensor]:
    def train() -> Tensor:
        predictor.zero_grad(set_to_none=True)
        predicted: Tensor = predictor(
            frames, actions, predict=case.predict, teacher_forcing=case.teacher_forcing
        ).frames
        squared_error_loss(predicted, frames[:, -case.predict :]).backward()  # type: ignore[no-untyped-call]
        return predicted.detach()

    @torch.inference_mode()
    def infer() -> Tensor:
        state = predictor.observe(frames[:, : -case.predict])
        if case.every_action:
            return predictor.predict_all(state)
        return unroll(predictor, state, actions[:, -case.predict :]).frames

    return train if case.train else infer


def _plain(case: Case, plain: PlainPort, frames: Tensor, actions: Tensor) -> Callable[[], Tensor]:
    def train() -> Tensor:
        plain.zero_grad(set_to_none=True)
        predicted = plain.predict(frames, actions, case.predict, case.teacher_forcing)
        error = (predicted - frames[:, -case.predict :]) ** 2
        (error.sum() / (2 * case.batch * case.predict)).backward()  # type: ignore[no-untyped-call]
        return predicted.detach()

    @torch.inference_mode()
    def infer() -> Tensor:
        if not case.every_action:
            return plain.predict(frames, actions, case.predict, True)
        every = [torch.full_like(actions, action) for action in range(ACTIONS)]
        return torch.cat([plain.predict(frames, action, 1, True) for action in every], 1)

    return train if case.train else infer


def seconds(function: Callable[[], object]) -> float:
    """Return the wall-clock time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def peak_flops(matrix: Tensor) -> float:
    """Return the floating-point operations per second of the best of two matrix products."""
    return 2 * PEAK_SIZE**3 / min(seconds(lambda: matrix @ matrix) for _ in range(2))


def work(case: Case, who: str, seed: int) -> None:
    """Run one side of a case once for each line of standard input, and print the seconds it took."""
    kept = keep_freed_memory() if who == "ours" else False
    step = make_step(case, who, seed)
    frames = step()  # once before it is timed
    sample = frames.flatten()[:: frames.numel() // SAMPLE].tolist()
    memory = (peak_memory_bytes() or 0) / 2**30
    print(json.dumps({"sample": sample, "memory": memory, "kept": kept}), flush=True)
    for _ in sys.stdin:
        print(seconds(step), flush=True)


class Worker:
    """One side of a case, waiting in a separate process."""

    def __init__(self, case: Case, who: str, seed: int) -> None:
        command = [sys.executable, "-m", "benchmarks.models", "--only", case.name, "--who", who, "--seed", str(seed)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about: dict[str, Any] = json.loads(self._line())

    def run(self) -> float:
        """Return the seconds of one more run."""
        assert self.process.stdin is not None
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        return float(self._line())

    def stop(self) -> None:
        """Let the process end."""
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended with exit code {self.process.wait()}; its error is above")
        return line


def measure(case: Case, repeats: int, seed: int) -> dict[str, Any]:
    """Return medians over interleaved repeats of one case."""
    started = time.perf_counter()
    ours, plain = Worker(case, "ours", seed), Worker(case, "plain", seed)
    matrix = torch.rand(PEAK_SIZE, PEAK_SIZE)
    peak_flops(matrix)
    rows = []
    for _ in range(repeats):
        before = peak_flops(matrix)
        rows.append((ours.run(), plain.run(), max(before, peak_flops(matrix))))
    ours.stop()
    plain.stop()
    mine, port, peak = (statistics.median(column) for column in zip(*rows, strict=True))
    pairs = list(zip(ours.about["sample"], plain.about["sample"], strict=True))
    return {
        "case": case.name, "batch": case.batch, "predicted_frames": case.predict, "repeats": repeats,
        "samples_per_second": case.batch / mine, "plain_samples_per_second": case.batch / port,
        "ratio_to_plain": statistics.median(row[1] / row[0] for row in rows),
        "gflop": flops(case) / 1e9, "matmul_peak_gflops": peak / 1e9,
        "fraction_of_peak": statistics.median(flops(case) / row[0] / row[2] for row in rows),
        "largest_difference_to_plain": max(abs(a - b) for a, b in pairs) / max(abs(b) for _, b in pairs),
        "peak_memory_gib": ours.about["memory"], "plain_peak_memory_gib": plain.about["memory"],
        "freed_memory_kept": ours.about["kept"], "seconds": time.perf_counter() - started,
    }  # fmt: skip


def deconvolution_forms(repeats: int) -> list[dict[str, Any]]:
    """Return milliseconds of both forward forms for the paper's four deconvolutions, batch 8, channels last."""
    layers: tuple[tuple[str, int, int, Pair, Pair], ...] = (
        ("deconv4", 128, 4, (0, 0), (11, 8)), ("deconv3", 128, 6, (1, 1), (24, 18)),
        ("deconv2", 128, 6, (1, 1), (50, 38)), ("deconv1", 3, 8, (0, 1), (102, 78)),
    )  # fmt: skip
    times = []
    for name, outputs, kernel, pad, size in layers:
        x = torch.rand(8, 128, *size).contiguous(memory_format=torch.channels_last)
        weight, bias = torch.rand(128, outputs, kernel, kernel), torch.zeros(outputs)
        rows = [_both_forms(x, weight, bias, pad) for _ in range(repeats + 1)][1:]
        transposed, sub_pixel = (1000 * statistics.median(column) for column in zip(*rows, strict=True))
        times.append({"layer": name, "outputs": outputs, "transposed_ms": transposed, "sub_pixel_ms": sub_pixel})
    return times


def _both_forms(x: Tensor, weight: Tensor, bias: Tensor, pad: Pair) -> tuple[float, float]:
    return (
        seconds(lambda: functional.conv_transpose2d(x, weight, bias, 2, pad)),
        seconds(lambda: sub_pixel_deconvolution(x, weight, bias, 2, pad)),
    )


def bars(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each promise with its measured value and whether it holds."""
    by_name = {case["case"]: case for case in cases}
    values: list[tuple[str, float, float]] = []
    for name, case in by_name.items():
        if "training, phase" in name:
            values.append((f"{name}: times the plain port", case["ratio_to_plain"], 1.25))
        if "predict_all" in name:
            values.append((f"{name}: times the plain port", case["ratio_to_plain"], 1.6))
    first = CASES[0].name
    if first in by_name:
        values.append((f"{first}: fraction of the matmul peak", by_name[first]["fraction_of_peak"], 0.8))
    slowest = min(cases, key=lambda case: float(case["ratio_to_plain"]))
    values.append((f"slowest case ({slowest['case']}): times the plain port", slowest["ratio_to_plain"], 1.0))
    return [{"bar": name, "value": value, "least": least, "met": value >= least} for name, value, least in values]


def report(result: dict[str, Any]) -> None:
    """Print one line for a case."""
    print(
        f"{result['case']:46s} {result['samples_per_second']:8.2f}/s  {result['ratio_to_plain']:5.2f}× plain  "
        f"{result['fraction_of_peak']:5.2f} of peak  {result['peak_memory_gib']:5.2f} GiB",
        flush=True,
    )


def main() -> None:
    """Run every case, or one of them in this process, and write or print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3, help="timed runs of each case")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights, frames and actions")
    parser.add_argument("--only", choices=[case.name for case in CASES], help="one case, nothing written")
    parser.add_argument("--who", choices=["ours", "plain"], help="with --only: be the worker of this side")
    options = parser.parse_args()
    chosen = [case for case in CASES if options.only in (None, case.name)]
    if options.who:
        work(chosen[0], options.who, options.seed)
        return
    started = time.monotonic()
    cases = []
    for case in chosen:
        cases.append(measure(case, options.repeats, options.seed))
        report(cases[-1])
    if options.only:
        return
    result = {
        "threads": torch.get_num_threads(), "peak_memory_gib": max(case["peak_memory_gib"] for case in cases),
        "bars": bars(cases), "deconvolution_forms": deconvolution_forms(options.repeats), "cases": cases,
    }  # fmt: skip
    write_results("models", result, command="make bench-models", seed=options.seed, started=started)
    for bar in bars(cases):
        print(f"{'met  ' if bar['met'] else 'UNMET'} {bar['bar']}: {bar['value']:.2f}, at least {bar['least']}")


if __name__ == "__main__":
    main()
