import pytest

from regard.data.config import PairsConfig
from regard.data.text import pairs
from regard.errors import UserError


def test_copies_are_the_same_at_every_call_and_in_one_split_alone() -> None:
    splits = {
        name: [pair[:2] for pair in pairs(PairsConfig(corpus=f"copy/{name}"))] for name in ("train", "valid", "test")
    }
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 20_000, "valid": 500, "test": 500}
    assert splits["valid"] == [pair[:2] for pair in pairs(PairsConfig(corpus="copy/valid"))]
    sets = [set(rows) for rows in splits.values()]
    assert len(set.union(*sets)) == sum(map(len, sets))
    assert all(source == target and 4 <= len(source.split()) <= 20 for source, target in splits["valid"])


@pytest.mark.parametrize(
    ("name", "told"), [("copy/dev", "train, valid, test"), ("daily/dev", "train, valid, test"), ("copy", "daily/train")]
)
def test_what_is_not_made_is_told(name: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        list(pairs(PairsConfig(corpus=name)))
