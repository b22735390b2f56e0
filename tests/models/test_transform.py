"""The transformations are the paper's equations, for one-hot and for continuous actions."""

import pytest
import torch

from acvp.models import ConfigError, FeedforwardConfig
from acvp.models.layers import RewardTerminationHeads
from acvp.models.networks import FactoredTransform, NoActionTransform, TensorTransform
from tests.models.small_predictors import seeded

N, A, F, B = 5, 3, 7, 4
H_ENC = torch.randn(B, N, generator=seeded(0))
VECTORS = torch.randn(B, A, generator=seeded(1))


def test_factored_is_equation_4_entry_by_entry() -> None:
    transform = FactoredTransform(N, A, F, seeded(2), factor_bias=False)
    assert transform.encoded.bias is None
    assert transform.action.bias is None
    w_enc, w_a, w_dec = transform.encoded.weight, transform.action.weight, transform.decoded.weight
    h_dec = transform(H_ENC, VECTORS)
    for b in range(B):
        factors = [(w_enc[f] @ H_ENC[b]) * (w_a[f] @ VECTORS[b]) for f in range(F)]
        torch.testing.assert_close(h_dec[b], w_dec @ torch.stack(factors) + transform.decoded.bias)


def test_factor_biases_are_added_before_the_product() -> None:
    transform = FactoredTransform(N, A, F, seeded(2), factor_bias=True)
    torch.nn.init.constant_(transform.encoded.bias, 0.5)
    torch.nn.init.constant_(transform.action.bias, -2.0)
    factors = (H_ENC @ transform.encoded.weight.T + 0.5) * (VECTORS @ transform.action.weight.T - 2.0)
    torch.testing.assert_close(transform(H_ENC, VECTORS), factors @ transform.decoded.weight.T)


def test_tensor_is_equation_3_entry_by_entry() -> None:
    transform = TensorTransform(N, A, seeded(2))
    torch.nn.init.uniform_(transform.bias, generator=seeded(3))
    h_dec = transform(H_ENC, VECTORS)
    for b in range(B):
        for i in range(N):
            terms = [transform.weight[k, i, j] * H_ENC[b, j] * VECTORS[b, k] for j in range(N) for k in range(A)]
            torch.testing.assert_close(h_dec[b, i], torch.stack(terms).sum() + transform.bias[i])


def test_a_factored_transform_is_a_tensor_transform_of_low_rank() -> None:
    factored, tensor = FactoredTransform(N, A, F, seeded(2), factor_bias=False), TensorTransform(N, A, seeded(3))
    w_enc, w_a, w_dec = factored.encoded.weight, factored.action.weight, factored.decoded.weight
    tensor.weight.data = torch.einsum("if,fj,fl->lij", w_dec, w_enc, w_a).detach()
    torch.testing.assert_close(factored(H_ENC, VECTORS), tensor(H_ENC, VECTORS))


def test_every_action_is_each_one_hot_action() -> None:
    transforms = (
        FactoredTransform(N, A, F, seeded(2), factor_bias=True),
        TensorTransform(N, A, seeded(2)),
        NoActionTransform(N, A, seeded(2)),
    )
    for transform in transforms:
        every = transform.every_action(H_ENC)
        assert every.shape == (B, A, N)
        for action, one_hot in enumerate(torch.eye(A)):
            torch.testing.assert_close(every[:, action], transform(H_ENC, one_hot.expand(B, A)))


def test_reward_and_termination_heads_read_the_transformed_feature() -> None:
    heads = RewardTerminationHeads(N, seeded(0))
    outcome = heads(H_ENC)
    torch.testing.assert_close(outcome.reward, H_ENC @ heads.reward.weight.T)
    torch.testing.assert_close(outcome.termination, H_ENC @ heads.termination.weight[0])


def test_a_shared_start_is_nearly_the_same_map_for_every_action() -> None:
    shared = FactoredTransform(64, A, 64, seeded(2), factor_bias=True, shared=True)
    paper = FactoredTransform(64, A, 64, seeded(2), factor_bias=True)
    h_enc = torch.randn(B, 64, generator=seeded(3))
    both = {"shared": shared, "paper": paper}
    spread = {start: transform.every_action(h_enc).detach() for start, transform in both.items()}
    variation = {start: float(h.var(1).sum() / h.square().mean(1).sum()) for start, h in spread.items()}
    assert variation["shared"] < 0.05
    assert variation["paper"] > 0.5


def test_a_shared_start_needs_the_bias_that_carries_it() -> None:
    with pytest.raises(ConfigError, match="needs the factored transform with factor_bias"):
        FeedforwardConfig(actions=A, start="shared", factor_bias=False)
