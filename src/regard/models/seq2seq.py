"""What encoder-decoders share: an encoder for any modality, word tables that may be one, and the full pass."""

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor, nn

from regard.attention.site import Site
from regard.models.config import Seq2seqConfig
from regard.models.writer import S, Writer
from regard.nn.embed import Embedding, word_table
from regard.nn.front import Front, Steps
from regard.nn.fronts import front_of
from regard.shapes import Padded

Parts = Callable[[], dict[str, Any]]  # position, norm and dropout of a front, new ones for each


def fronts(config: Seq2seqConfig, width: int, parts: Parts, **how: Any) -> tuple[Front, Embedding, nn.Parameter]:
    """Of source and target, and the output's table; tables may be the same object."""
    target = word_table(config.target_vocabulary, width)
    output = word_table(config.target_vocabulary, width) if config.tied == "none" else target
    source = None if config.front else target if config.tied == "all" else word_table(config.source_vocabulary, width)
    return front_of(config.front, width, source, parts(), **how), Embedding(target, **parts(), **how), output


class Trunk(Protocol):
    """What reads the steps of a front: a Stack, recurrent layers."""

    def read(self, steps: Steps, site: Site = Site()) -> Steps: ...


class Seq2seq(Writer[S]):
    """An encoder, which is a front and a trunk, and a decoder: a family says what its decoder keeps of the source
    (`begun`), how to `advance` and to `read`, and has the rest from here."""

    source_embedding: Front
    encoder: Trunk

    def encode(self, source: Padded, site: Site = Site()) -> S:
        """Read the sources: the state before the first token."""
        steps: Steps = self.source_embedding(source, site / "source")
        return self.begun(self.encoder.read(steps, site.over("source") / "encoder"))

    def begun(self, encoded: Steps) -> S:
        """The decoder's state before the first token."""
        raise NotImplementedError  # abstract

    def forward(self, source: Padded, target: Tensor, site: Site = Site()) -> Tensor:
        """Logits (B, T, V) of the token after each of target (B, T), which begins with `start`."""
        return self.head(self.advance(target, self.encode(source, site), site)[0])

    def begin(self, batch: Padded, prefix: Padded | None = None) -> S:
        return self.after(prefix, self.encode(batch))
