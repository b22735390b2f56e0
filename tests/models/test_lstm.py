"""The LSTM is torch's with reordered weights, and its gate gradients are clipped as written out by hand."""

import torch
from torch import Tensor, nn

from acvp.models.layers import ClippedLstm
from tests.models.small_predictors import seeded

ROWS, TIMES, INPUTS, HIDDEN = 3, 4, 5, 6


def reordered(weight: Tensor) -> Tensor:
    """Return rows i, f, o, g in torch's order i, f, g, o."""
    i, f, o, g = weight.detach().chunk(4)
    return torch.cat((i, f, g, o))


def torch_cell(lstm: ClippedLstm) -> nn.LSTMCell:
    """Return torch's cell with the same weights."""
    cell = nn.LSTMCell(INPUTS, HIDDEN)
    cell.load_state_dict(
        {
            "weight_ih": reordered(lstm.inputs.weight), "weight_hh": reordered(lstm.recurrent),
            "bias_ih": reordered(lstm.inputs.bias), "bias_hh": torch.zeros(4 * HIDDEN),
        }
    )  # fmt: skip
    return cell


def lstm_with(gate_clip: float) -> ClippedLstm:
    """Return a small LSTM with weights and biases large enough to use the gates."""
    lstm = ClippedLstm(INPUTS, HIDDEN, gate_clip, seeded(0))
    for weight in lstm.parameters():
        nn.init.uniform_(weight, -1, 1, generator=seeded(1))
    return lstm


def test_equals_torch_cell_with_reordered_weights() -> None:
    lstm = lstm_with(0.1)
    cell = torch_cell(lstm)
    x = torch.randn(ROWS, TIMES, INPUTS, generator=seeded(2))
    every_h, memory = lstm(x, *lstm.start(ROWS))
    h, c = torch.zeros(ROWS, HIDDEN), torch.zeros(ROWS, HIDDEN)
    for t in range(TIMES):
        h, c = cell(x[:, t], (h, c))
        torch.testing.assert_close(every_h[:, t], h)
    torch.testing.assert_close(memory, c)


def test_gradients_without_clip_equal_torch() -> None:
    lstm = lstm_with(0.0)
    cell = torch_cell(lstm)
    x = torch.randn(ROWS, TIMES, INPUTS, generator=seeded(2))
    lstm(x, *lstm.start(ROWS))[0].square().sum().backward()
    state = (torch.zeros(ROWS, HIDDEN), torch.zeros(ROWS, HIDDEN))
    total = torch.zeros(())
    for t in range(TIMES):
        state = cell(x[:, t], state)
        total = total + state[0].square().sum()
    total.backward()  # type: ignore[no-untyped-call]
    assert lstm.recurrent.grad is not None
    assert cell.weight_hh.grad is not None
    torch.testing.assert_close(reordered(lstm.recurrent.grad), cell.weight_hh.grad)


def by_hand(lstm: ClippedLstm, x: Tensor, clip: float) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Return gradients of the sum of all h², by the chain rule in numpy fashion, and how many entries were clipped."""
    w_x, w_h, bias = lstm.inputs.weight.detach(), lstm.recurrent.detach(), lstm.inputs.bias.detach()
    h, c = torch.zeros(ROWS, HIDDEN), torch.zeros(ROWS, HIDDEN)
    tape = []
    for t in range(TIMES):
        i, f, o, g = (x[:, t] @ w_x.T + bias + h @ w_h.T).chunk(4, 1)
        i, f, o, g = i.sigmoid(), f.sigmoid(), o.sigmoid(), g.tanh()
        new_c = f * c + i * g
        tape.append((i, f, o, g, c, new_c, h))
        h, c = o * new_c.tanh(), new_c
    d_wx, d_wh, d_b, d_x = torch.zeros_like(w_x), torch.zeros_like(w_h), torch.zeros_like(bias), torch.zeros_like(x)
    d_h, d_c, clipped = torch.zeros(ROWS, HIDDEN), torch.zeros(ROWS, HIDDEN), 0
    for t in reversed(range(TIMES)):
        i, f, o, g, old_c, new_c, old_h = tape[t]
        d_h = d_h + 2 * o * new_c.tanh()
        d_c = d_c + d_h * o * (1 - new_c.tanh() ** 2)
        d_i, d_f, d_o, d_g = d_c * g, d_c * old_c, d_h * new_c.tanh(), d_c * i
        gates = torch.cat((d_i * i * (1 - i), d_f * f * (1 - f), d_o * o * (1 - o), d_g * (1 - g**2)), 1)
        clipped += int((gates.abs() > clip).sum())
        gates = gates.clamp(-clip, clip)
        d_wx, d_wh, d_b = d_wx + gates.T @ x[:, t], d_wh + gates.T @ old_h, d_b + gates.sum(0)
        d_x[:, t], d_h, d_c = gates @ w_x, gates @ w_h, d_c * f
    return d_wx, d_wh, d_b, d_x, clipped


def test_clipped_gradients_equal_a_hand_written_reference() -> None:
    lstm = lstm_with(0.1)
    x = torch.randn(ROWS, TIMES, INPUTS, generator=seeded(2)).requires_grad_()
    lstm(x, *lstm.start(ROWS))[0].square().sum().backward()
    *expected, clipped = by_hand(lstm, x.detach(), 0.1)
    assert 10 < clipped < ROWS * TIMES * 4 * HIDDEN - 10
    for value, grad in zip((lstm.inputs.weight, lstm.recurrent, lstm.inputs.bias, x), expected, strict=True):
        assert value.grad is not None
        torch.testing.assert_close(value.grad, grad)
