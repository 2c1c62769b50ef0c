"""The optimizer: Muon for the matrices of linear layers, AdamW for everything else, or for all."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.tasks.config import TrainConfig
from regard.training.distributed import World

MOMENTUM = 0.95
ROUNDS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # the polynomial of Newton and Schulz, tuned to be steep at 0 [Jordan+ 2024]
LIKE_ADAM = 0.2  # the size of an element's step, so that one learning rate suits both [Liu+ 2025, eq. 4]
CAN: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # an old PyTorch does not tell
BFLOAT16 = CAN.get("avx512_bf16", False)  # precise enough [Jordan+ 2024], and faster where the processor multiplies it


class Optimizer(torch.optim.AdamW):
    """A matrix moves by its momentum made orthogonal, so that all directions count alike [Jordan+ 2024]; tables of
    words, vectors and recurrent weights by AdamW [Loshchilov+ 2019]."""

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        moving: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
        matrices = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear) and config.optimizer == "muon"}
        linear, rest = [p for p in moving if id(p) in matrices], [p for p in moving if id(p) not in matrices]
        super().__init__(rest, lr=config.lr, betas=config.betas, weight_decay=config.weight_decay, eps=1e-9, fused=True)
        self.matrices = [[m for m in linear if m.shape == shape] for shape in dict.fromkeys(m.shape for m in linear)]
        self.momenta = [torch.zeros_like(torch.stack([m.detach() for m in alike])) for alike in self.matrices]
        for alike, momenta in zip(self.matrices, self.momenta, strict=True):
            for matrix, momentum in zip(alike, momenta, strict=True):
                self.state[matrix] = {"momentum": momentum}

    @torch.no_grad()
    def move(self, lr: float, world: World) -> None:
        """One step, from the gradients. The processes of a world share the work on matrices; nothing has changed yet if
        one of them is lost."""
        momenta, moves = [], []
        for alike, before in zip(self.matrices, self.momenta, strict=True):
            gradients = torch.stack([m.grad for m in alike if m.grad is not None])
            momenta.append(before.lerp(gradients, 1 - MOMENTUM))
            ahead = gradients.lerp_(momenta[-1], MOMENTUM)  # as Nesterov looks
            moves.append(torch.zeros_like(ahead))
            world.share(moves[-1])[:] = orthogonal(world.share(ahead))
        moves = world.summed(moves)  # of one and of zeros
        for group in self.param_groups:
            group["lr"] = lr
        self.step()
        decay = 1 - lr * float(self.param_groups[0]["weight_decay"])
        for alike, before, now, move in zip(self.matrices, self.momenta, momenta, moves, strict=True):
            before.copy_(now)
            torch._foreach_mul_(alike, decay)
            torch._foreach_add_(alike, list(move.unbind()), alpha=-lr * LIKE_ADAM * max(move.shape[1:]) ** 0.5)


def orthogonal(x: Tensor) -> Tensor:
    """The nearest orthogonal matrix to each of x (N, A, B), about: singular values become 0.7 to 1.2."""
    given, wide = x.dtype, x.shape[-2] <= x.shape[-1]
    x = x if wide else x.mT
    x = x / torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    if given == torch.float32 and BFLOAT16:
        x = x.bfloat16()
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return (x if wide else x.mT).to(given)
