"""ELMo [Peters+ 2018]: two recurrent language models, one for each direction, whose states are vectors of words."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from regard.attention.site import Site
from regard.models.config import ElmoConfig
from regard.nn.embed import OutputHead, Steps, front_of, word_table
from regard.nn.recurrent import RecurrentLayers
from regard.shapes import Padded


class Elmo(nn.Module):
    """Recurrent layers that read forth, and others that read back, between one word table and one output head for both
    [Peters+ 2018, section 3.1]. Its words are sub-words, where ELMo's are made of characters by convolution, and its
    states are as wide as its cells, where ELMo's are projected."""

    guess = mask = None  # it fills no blanks

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config, self.start, self.end = config, config.start, config.end
        width, narrower = config.embedding, config.width != config.embedding
        table = None if config.front else word_table(config.vocabulary, width)
        self.embedding = front_of(config.front, width, table, {"dropout": config.dropout})
        self.entry = nn.Linear(config.embedding, config.width) if narrower else nn.Identity()
        layers = [[RecurrentLayers(config.layer) for _ in range(config.num_layers)] for _ in range(2)]
        self.forth, self.back = map(nn.ModuleList, layers)
        self.readout = nn.Linear(config.width, config.embedding) if narrower else nn.Identity()
        if table is not None:
            self.head = OutputHead(table if config.tied else word_table(*table.shape), bias=True)

    def hidden(self, batch: Padded, site: Site = Site()) -> Steps:
        """The mean of the layers (B, T, 2 C); segments are not told apart."""
        return Steps.of(torch.stack(self.layers(batch, site)).mean(0), batch.lengths)

    def forward(self, batch: Padded, site: Site = Site()) -> Tensor:
        """The same."""
        return self.hidden(batch, site).x

    def layers(self, batch: Padded, site: Site = Site()) -> list[Tensor]:
        """The front's vectors twice over, then what each layer makes of them, reading forth and back: (B, T, 2 C)."""
        x, forth, back = self._read(batch, site)
        return [torch.cat(both, -1) for both in ((x, x), *zip(forth, back, strict=True))]

    def both(self, texts: Padded, site: Site = Site()) -> tuple[Tensor, Tensor]:
        """What `head` tells the next word from, and what it tells the word before from, at each step: (B, T, C)."""
        _, forth, back = self._read(texts, site)
        last = {"forth": forth[-1], "back": back[-1]}
        said = [self.readout((site / "readout" / name).dropout(x, self.config.dropout)) for name, x in last.items()]
        return said[0], said[1]

    def _read(self, batch: Padded, site: Site) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The front's vectors (B, T, C), and what each layer makes of them, forth and back."""
        x, lengths = self.entry(self.embedding(batch, site / "text").x), batch.lengths
        forth = self._climb(self.forth, x, lengths, site / "forth")
        back = self._climb(self.back, flipped(x, lengths), lengths, site / "back")
        return x, forth, [flipped(x, lengths) for x in back]

    def _climb(self, layers: Iterable[nn.Module], x: Tensor, lengths: Tensor, site: Site) -> list[Tensor]:
        """What each layer says, with what it takes in added from the second on."""
        said = list[Tensor]()
        for i, layer in enumerate(layers):
            if i:
                x = (site / i).dropout(x, self.config.dropout)
            y = layer(x, lengths=lengths).x
            x = x + y if i else y
            said.append(x)
        return said


class Mix(nn.Module):
    """gamma sum_j softmax(w)_j h_j over layers h_j (B, T, C) [Peters+ 2018, eq. 1]."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(num_layers))  # w
        self.weight = nn.Parameter(torch.ones(()))  # gamma: of the name that initial weights are 1 by

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        return self.weight * torch.einsum("j,jbtc->btc", self.scores.softmax(0), torch.stack(list(layers)))


def flipped(x: Tensor, lengths: Tensor) -> Tensor:
    """The steps of each row of x (B, T, C) from its last to its first; padding stays on the right."""
    at = torch.arange(x.shape[1], device=x.device)
    index = torch.where(at < lengths[:, None], lengths[:, None] - 1 - at, at)  # -> (B, T)
    return x.gather(1, index[..., None].expand_as(x))
