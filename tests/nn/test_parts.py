import pytest
import torch
from torch.nn import functional as F

from regard.attention import Site
from regard.errors import UserError
from regard.models.build import initialise
from regard.models.config import TransformerConfig
from regard.nn.config import RecurrentLayersConfig, StackConfig
from regard.nn.parts import ACTIVATIONS, NORMS, FeedForward, Residual, make_norm
from regard.nn.recurrent import RecurrentLayers
from regard.rng import Key


def test_a_norm_stands_before_after_or_nowhere() -> None:
    x, said = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    norm = F.layer_norm(x, (8,))
    pre, post, none = (Residual(8, "layer", 1e-5, placement, 0.0) for placement in ("pre", "post", "none"))  # type: ignore[arg-type]
    assert torch.allclose(pre.enter(x), norm, atol=1e-6)
    assert torch.equal(pre.leave(x, said, Site()), x + said)
    assert post.enter(x) is x
    assert torch.allclose(post.leave(x, said, Site()), F.layer_norm(x + said, (8,)), atol=1e-6)
    assert none.enter(x) is x
    assert torch.equal(none.leave(x, said, Site()), x + said)
    assert not list(none.parameters())


def test_rms_norm_is_its_formula() -> None:
    x = torch.randn(4, 8)
    wanted = x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
    assert torch.allclose(make_norm("rms", 8, 1e-5)(x), wanted, atol=1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_feedforward_is_its_formula(name: str) -> None:
    layer, x = FeedForward(6, 10, name), torch.randn(2, 3, 6)
    function, gated = ACTIVATIONS[name]
    hidden = function(layer.gate(x)) * layer.up(x) if gated else function(layer.up(x))  # type: ignore[misc]
    assert torch.allclose(layer(x), layer.down(hidden))


def test_forget_gates_begin_open_and_recurrent_matrices_orthogonal() -> None:
    layers = RecurrentLayers(RecurrentLayersConfig(input_width=6, width=8))
    initialise(layers, Key(0))
    lstm = layers.layers[0]
    assert (lstm.bias_ih_l0 + lstm.bias_hh_l0).view(4, 8).tolist() == [[0] * 8, [1] * 8, [0] * 8, [0] * 8]  # type: ignore[union-attr,operator]
    for gate in lstm.weight_hh_l0.split(8):  # type: ignore[union-attr,operator]
        assert torch.allclose(gate @ gate.T, torch.eye(8), atol=1e-5)


def test_residual_layers_add_their_input_from_the_second_on() -> None:
    config = dict(input_width=6, width=8, num_layers=2, cell="gru")
    plain, residual = (RecurrentLayers(RecurrentLayersConfig(**config, residual=r)) for r in (False, True))  # type: ignore[arg-type]
    residual.load_state_dict(plain.state_dict())
    x = torch.randn(2, 3, 6)
    first = plain.layers[0](x)[0]
    assert torch.allclose(residual(x).x, plain(x).x + first, atol=1e-6)


def test_unknown_names_are_told_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=f"'batch'.*{', '.join(NORMS)}"):
        make_norm("batch", 8, 1e-5)
    with pytest.raises(UserError, match="'relo'.*relu"):
        FeedForward(6, 10, "relo")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StackConfig(hidden=0), "hidden 0 .* 1 .*262,144"),
        (lambda: StackConfig(dropout=1.0), r"dropout 1 .*0\.999999"),
        (lambda: StackConfig(num_heads=3), "width .*num_heads 3"),
        (lambda: TransformerConfig(decoder_layers=0), "decoder_layers 0 .* 1 .*256"),
        (lambda: RecurrentLayersConfig(input_width=0, width=8), "input_width 0 .* 1 .*262,144"),
    ],
)
def test_settings_are_checked(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]
