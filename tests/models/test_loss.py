"""The loss has the authors' scale."""

import pytest
import torch

from acvp.models import FrameError, squared_error_loss


def test_hand_computed_case() -> None:
    # Two rows, three steps, one channel, 1×2 pixels; errors (1, 2) in one frame, (3, 0) in another, none elsewhere.
    target = torch.zeros(2, 3, 1, 1, 2)
    predicted = target.clone()
    predicted[0, 0, 0, 0] = torch.tensor([1.0, 2.0])
    predicted[1, 2, 0, 0] = torch.tensor([3.0, 0.0])
    assert squared_error_loss(predicted, target).item() == pytest.approx((1 + 4 + 9) / 2 / (2 * 3))


def test_gradient_is_the_error_over_batch_and_steps() -> None:
    target = torch.zeros(2, 3, 1, 1, 2)
    predicted = torch.arange(12.0).view(2, 3, 1, 1, 2).requires_grad_()
    squared_error_loss(predicted, target).backward()  # type: ignore[no-untyped-call]
    assert predicted.grad is not None
    torch.testing.assert_close(predicted.grad, predicted.detach() / 6)


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(FrameError, match=r"\(2, 3, 1, 1, 2\) beside target frames \(2, 1, 1, 1, 2\)"):
        squared_error_loss(torch.zeros(2, 3, 1, 1, 2), torch.zeros(2, 1, 1, 1, 2))
