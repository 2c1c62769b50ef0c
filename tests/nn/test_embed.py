import pytest
import torch

from regard.errors import UserError
from regard.nn.embed import Embedding, OutputHead, word_table


def test_a_table_may_serve_both_ends() -> None:
    table = word_table(7, 4)
    embedding, head = Embedding(table, scaled=True), OutputHead(table, bias=True)
    assert embedding.table is head.table
    tokens, where = torch.tensor([[3, 6]]), torch.arange(2)[None]
    assert torch.allclose(embedding.embed(tokens, where), table[tokens] * 2.0)
    x = torch.randn(2, 4)
    assert torch.allclose(head(x), x @ table.T)


@pytest.mark.parametrize("tokens", [[[7]], [[-1]]])
def test_ids_outside_the_vocabulary_are_told(tokens: list[list[int]]) -> None:
    with pytest.raises(UserError, match=f"token.* {tokens[0][0]} .* 7 "):
        Embedding(word_table(7, 4)).embed(torch.tensor(tokens), torch.zeros(1, 1))


def test_empty_batches_are_told() -> None:
    with pytest.raises(UserError, match=r"shape \(1, 0\)"):
        Embedding(word_table(7, 4)).embed(torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, 0))
