"""A bidirectional language model, ready to use."""

from __future__ import annotations

from regard.tasks.bilm.task import tell_both_ways
from regard.tasks.mlm.runtime import Encoder
from regard.tasks.runnable import Evaluation
from regard.tasks.running_spec import TextEvaluation
from regard.tasks.running_text import evaluated


class BidirectionalEncoder(Encoder):
    """As any encoder, but for how it is evaluated."""

    def evaluated(self, options: TextEvaluation) -> Evaluation:
        """How well each token is predicted from either side."""
        return evaluated(
            self, options, lambda text, tick: tell_both_ways(self.model, text.ids[1:], self.max_length, 8, tick)
        )
