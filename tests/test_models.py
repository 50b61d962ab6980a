"""The models are the literature's: parameter counts, shapes, and fitness for hooks."""

from math import prod

import pytest

from workloads import profiler

pytestmark = pytest.mark.torch

# ResNet-18/50/101 and VGG-16: as published with torchvision's weights. ResNet-32: 0.46 M in table 6
# of He et al.; TensorLights' model. Transformer: 12 w^2 + 13 w a block, and the arithmetic below.
PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet32": 464_154,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "vgg16": 138_357_544,
    "transformer": (8192 + 128) * 512 + 6 * (12 * 512**2 + 13 * 512) + 2 * 512 + 512 * 8192,
}
# Layers with parameters. ResNet-50: 53 convolutions, as many normalisations, and the classifier.
LAYERS = {"resnet18": 41, "resnet32": 63, "resnet50": 107, "resnet101": 209, "vgg16": 16}


@pytest.mark.parametrize("name", profiler.MODELS)
def test_parameters_are_those_of_the_literature(name: str) -> None:
    from workloads.models import MODELS

    network = MODELS[name].network()
    assert sum(parameter.numel() for parameter in network.parameters()) == PARAMETERS[name]
    if name in LAYERS:
        layers = [layer for layer in network.modules() if list(layer.parameters(recurse=False))]
        assert len(layers) == LAYERS[name]


def test_the_command_line_offers_the_models_there_are() -> None:
    from workloads.models import MODELS

    assert tuple(MODELS) == profiler.MODELS


@pytest.mark.parametrize("name", profiler.MODELS)
def test_a_batch_goes_through_and_gives_one_row_a_target(name: str) -> None:
    import torch

    from workloads.models import MODELS

    model = MODELS[name]
    samples, targets = model.batch(2, torch.Generator().manual_seed(1))
    with torch.no_grad():
        scores = model.network()(samples)
    assert scores.shape[0] == targets.shape[0] == (2 * 128 if name == "transformer" else 2)
    assert scores.shape[1] > int(targets.max())
    assert prod(scores.shape) == scores.isfinite().sum()


def test_a_batch_comes_from_its_generator_alone() -> None:
    import torch

    from workloads.models import MODELS

    draws = [MODELS["resnet32"].batch(2, torch.Generator().manual_seed(7)) for _ in range(2)]
    assert torch.equal(draws[0][0], draws[1][0])
    assert torch.equal(draws[0][1], draws[1][1])


def test_the_shortcut_without_parameters_keeps_what_it_passes() -> None:
    import torch

    from workloads.models import PaddedShortcut

    x = torch.arange(2 * 16.0).reshape(1, 2, 4, 4)
    out = PaddedShortcut(4, 2)(x)
    assert out.shape == (1, 4, 2, 2)
    assert torch.equal(out[:, :2], x[:, :, ::2, ::2])
    assert not out[:, 2:].any()
