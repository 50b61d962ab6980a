"""The models that can be profiled, in plain torch: ResNets, VGG-16 and a small transformer.

Written here because torchvision would be one more pinned binary for a hundred lines of code. The
architectures are those of the papers, in the variant that everybody measures (ResNet v1.5: the
stride is in the 3x3 convolution), and tests hold their parameter counts to the literature.

Every weight belongs to a module that is called exactly once in a forward pass, so that a hook on
the module sees all the work for it: no shared weights, no bare parameters. No module works in
place, because full backward hooks forbid that. This module imports torch: import it only where
torch is needed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Model:
    """How to make a network, and how to make a batch of random samples with their targets."""

    title: str
    network: Callable[[], nn.Module]
    batch: Callable[[int, torch.Generator], Batch]


# ---- ResNet (He et al., Deep Residual Learning for Image Recognition, 2015) -------------------


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Module:
    """No bias: the batch normalisation that follows has one."""
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


def normalised(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(convolution(inputs, outputs, size, stride), nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    """relu(body(x) + shortcut(x))."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


class PaddedShortcut(nn.Module):
    """The paper's option A, used for CIFAR: skip every second pixel, pad channels with zeros."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.channels = channels
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        missing = self.channels - x.shape[1]
        return functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, missing))


def projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    """The paper's option B: a 1x1 convolution where the shape changes."""
    if inputs == outputs and stride == 1:
        return nn.Identity()
    return normalised(inputs, outputs, 1, stride)


def basic(inputs: int, width: int, stride: int) -> nn.Module:
    return nn.Sequential(
        normalised(inputs, width, 3, stride), nn.ReLU(), normalised(width, width, 3)
    )


def bottleneck(inputs: int, width: int, stride: int) -> nn.Module:
    return nn.Sequential(
        normalised(inputs, width, 1),
        nn.ReLU(),
        normalised(width, width, 3, stride),
        nn.ReLU(),
        normalised(width, 4 * width, 1),
    )


def resnet(blocks: tuple[int, ...], deep: bool) -> nn.Module:
    """For ImageNet: 224 x 224 pixels, 1000 classes."""
    body, expansion = (bottleneck, 4) if deep else (basic, 1)
    layers: list[nn.Module] = [normalised(3, 64, 7, stride=2), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    inputs = 64
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            shortcut = projection(inputs, expansion * width, stride)
            layers.append(Residual(body(inputs, width, stride), shortcut))
            inputs = expansion * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def cifar_resnet(blocks_per_stage: int) -> nn.Module:
    """For CIFAR-10: 32 x 32 pixels, 10 classes, three stages of 16, 32 and 64 channels."""
    layers: list[nn.Module] = [normalised(3, 16, 3), nn.ReLU()]
    inputs = 16
    for width in (16, 32, 64):
        for _ in range(blocks_per_stage):
            stride = width // inputs
            shortcut = PaddedShortcut(width, stride) if width != inputs else nn.Identity()
            layers.append(Residual(basic(inputs, width, stride), shortcut))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


# ---- VGG (Simonyan and Zisserman, 2014), configuration D, no batch normalisation --------------


def vgg16() -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 3
    for width, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(convolutions):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU()]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout()]
    layers += [nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers)


# ---- a small transformer: a decoder like GPT-2's ------------------------------------------------

VOCABULARY = 8192
WIDTH = 512
HEADS = 8
BLOCKS = 6
TOKENS = 128


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        samples, tokens, _ = x.shape
        heads = self.queries_keys_values(x).view(samples, tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(samples, tokens, WIDTH))


class TransformerBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(WIDTH), Attention())
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.GELU(),
            nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        return x + self.mlp(x)


class Embedding(nn.Module):
    """What a token is plus where it stands."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(TOKENS, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.token(tokens) + self.position(torch.arange(tokens.shape[1]))


def transformer() -> nn.Module:
    blocks = [TransformerBlock() for _ in range(BLOCKS)]
    head = nn.Linear(WIDTH, VOCABULARY, bias=False)
    # cross_entropy wants the classes in the second dimension, hence one flat row a token
    return nn.Sequential(Embedding(), *blocks, nn.LayerNorm(WIDTH), head, nn.Flatten(0, 1))


# ---- what a batch of each looks like -----------------------------------------------------------


def images(pixels: int, classes: int) -> Callable[[int, torch.Generator], Batch]:
    def batch(size: int, draw: torch.Generator) -> Batch:
        samples = torch.randn(size, 3, pixels, pixels, generator=draw)
        return samples, torch.randint(classes, (size,), generator=draw)

    return batch


def sentences(size: int, draw: torch.Generator) -> Batch:
    """Each token is to be predicted from those before it."""
    tokens = torch.randint(VOCABULARY, (size, TOKENS + 1), generator=draw)
    return tokens[:, :-1], tokens[:, 1:].flatten()


imagenet = images(224, 1000)
cifar = images(32, 10)

MODELS = {
    "resnet18": Model("ResNet-18 (ImageNet)", lambda: resnet((2, 2, 2, 2), False), imagenet),
    "resnet32": Model("ResNet-32 (CIFAR-10)", lambda: cifar_resnet(5), cifar),
    "resnet50": Model("ResNet-50 (ImageNet)", lambda: resnet((3, 4, 6, 3), True), imagenet),
    "resnet101": Model("ResNet-101 (ImageNet)", lambda: resnet((3, 4, 23, 3), True), imagenet),
    "vgg16": Model("VGG-16 (ImageNet)", vgg16, imagenet),
    "transformer": Model(
        f"A small transformer ({BLOCKS} blocks, width {WIDTH}, {TOKENS} tokens a sample)",
        transformer,
        sentences,
    ),
}
