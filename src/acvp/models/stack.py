"""The sizes of a stack of strided convolutions that deconvolutions can mirror exactly."""

from collections.abc import Sequence

from acvp.models.checks import ConfigError
from acvp.models.layers import Pair


def stack_sizes(size: Pair, kernels: Sequence[int], pads: Sequence[Pair], strides: Sequence[int]) -> tuple[Pair, ...]:
    """Return (height, width) before the stack and after each convolution, or refuse a stack without exact mirror."""
    sizes = [size]
    chain = _text(size)
    for kernel, pad, stride in zip(kernels, pads, strides, strict=True):
        low = min(kernel, stride)
        if low < 1 or min(pad) < 0:
            raise ConfigError(f"kernel {kernel}, pad {pad}, stride {stride}: kernels and strides from 1, pads from 0")
        spans = [length + 2 * p - kernel for length, p in zip(sizes[-1], pad, strict=True)]
        after = (spans[0] // stride + 1, spans[1] // stride + 1)
        chain += f" -[kernel {kernel}, pad {_text(pad)}, stride {stride}]-> {_text(after)}"
        if min(spans) < 0:
            raise ConfigError(f"frame {_text(size)} (height×width) is too small for the stack: {chain}")
        if any(span % stride for span in spans):
            back = tuple((a - 1) * stride - 2 * p + kernel for a, p in zip(after, pad, strict=True))
            raise ConfigError(
                f"the stack {chain} has no exact mirror: the deconvolution of its last layer gives "
                f"{_text((back[0], back[1]))}, not {_text(sizes[-1])}; change that layer's pad or kernel"
            )
        sizes.append(after)
    return tuple(sizes)


def _text(pair: Pair) -> str:
    return f"{pair[0]}×{pair[1]}"
