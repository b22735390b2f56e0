"""The loss over chosen and copied colors: its value, its gradient, and numbers that no float32 holds."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from acvp.pixel.loss import NO_PIXEL, SMALLEST_MOTION, copy_mixture_loss
from tests.models.small_predictors import seeded


def test_the_loss_makes_no_subnormal_numbers() -> None:
    own = torch.tensor([[[0.0, -86.0, -95.0, -200.0]]], requires_grad=True)  # e^-87 is the least that a float holds
    motion = torch.tensor([[-86.0, -90.0, -300.0]], requires_grad=True)
    loss = (
        copy_mixture_loss(own, motion, torch.tensor([[[0, 1, 4]]]), torch.tensor([[0]])).sum() / 32
    )  # as of many rows
    for gradient in torch.autograd.grad(loss, (own, motion)):
        values = gradient[gradient != 0].abs()
        assert (values >= torch.finfo(torch.float32).tiny).all()


def test_the_loss_has_the_gradient_that_it_says() -> None:
    draw = seeded(5)
    own = torch.randn(3, 4, 5, generator=draw, dtype=torch.float64, requires_grad=True)
    motion = (3 * torch.randn(3, 3, generator=draw, dtype=torch.float64)).requires_grad_()
    moved, wanted = torch.randint(0, 6, (3, 4, 3), generator=draw), torch.randint(0, 5, (3, 4), generator=draw)
    wanted[0, 1] = NO_PIXEL
    assert torch.autograd.gradcheck(lambda o, m: copy_mixture_loss(o, m, moved, wanted), (own, motion))


@pytest.mark.parametrize(("far", "motion"), [(200.0, 70.0), (100.0, 250.0), (500.0, 280.0), (500.0, 300.0), (1e4, 1e5)])
def test_the_loss_bears_logits_that_no_exponential_does(far: float, motion: float) -> None:
    """The first motion brings the second color: the logits are ±far for choosing, motion − far and far − motion."""
    own = torch.tensor([[[far, -far]]], requires_grad=True)
    motions = torch.tensor([[motion, -motion]], requires_grad=True)
    logits = torch.tensor([far, motion - far])
    for wanted in torch.tensor([0, 1]):
        loss = copy_mixture_loss(own, motions, torch.tensor([[[1, 0]]]), wanted.view(1, 1))
        of_own, of_motions = torch.autograd.grad(loss.sum(), (own, motions))
        assert all(each.isfinite().all() for each in (loss, of_own, of_motions))
        if motion < -SMALLEST_MOTION:
            torch.testing.assert_close(loss[0], functional.cross_entropy(logits, wanted))
            shares = logits.softmax(0) - functional.one_hot(wanted, 2)
            torch.testing.assert_close(of_own[0, 0], shares)
            torch.testing.assert_close(of_motions[0, 0], shares[1])


def test_where_every_motion_is_out_of_the_question_colors_are_chosen() -> None:
    own, motions = torch.tensor([[[1.0, 3.0]]]), torch.tensor([[-1e4, -1e4]])
    loss = copy_mixture_loss(own, motions, torch.tensor([[[1, 0]]]), torch.tensor([[0]]))
    torch.testing.assert_close(loss, functional.cross_entropy(own[0], torch.tensor([0]), reduction="none"))
