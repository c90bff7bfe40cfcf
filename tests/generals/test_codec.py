"""Our action numbers and the two encodings of the other system say the same moves."""

import pytest

from playmill.games import PlaymillError
from playmill.games.generals_codec import DOWN, ENGINE, EXPERIENCE, LEFT, RIGHT, UP, Codec, Order

SIZES = [(1, 1), (4, 4), (5, 3), (3, 7), (18, 21), (32, 32)]
# The steps of each direction as the other system's engine and serializer define them, (dx, dy).
ENGINE_STEPS = [(0, -1), (1, 0), (0, 1), (-1, 0)]
EXPERIENCE_STEPS = [(0, -1), (0, 1), (-1, 0), (1, 0)]
OUR_STEPS = {UP: (0, -1), DOWN: (0, 1), LEFT: (-1, 0), RIGHT: (1, 0)}


@pytest.mark.parametrize("directions", [ENGINE, EXPERIENCE])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_every_action_comes_back(width: int, height: int, directions: tuple[int, ...]) -> None:
    codec = Codec(width, height, directions)
    actions = range(width * height * 8 + 1)
    orders = [codec.encode(action) for action in actions]
    assert [codec.decode(order) for order in orders] == list(actions)
    assert len(set(orders)) == len(orders)


@pytest.mark.parametrize("directions", [ENGINE, EXPERIENCE])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_every_order_comes_back(width: int, height: int, directions: tuple[int, ...]) -> None:
    codec = Codec(width, height, directions)
    orders = [Order(index, half) for index in range(width * height * 4) for half in (False, True)]
    assert [codec.encode(codec.decode(order)) for order in orders] == orders


@pytest.mark.parametrize(
    ("directions", "steps"), [(ENGINE, ENGINE_STEPS), (EXPERIENCE, EXPERIENCE_STEPS)], ids=["engine", "exp"]
)
@pytest.mark.parametrize("half", [False, True])
def test_an_order_goes_the_same_way(
    directions: tuple[int, ...], steps: list[tuple[int, int]], half: bool
) -> None:
    width, height = 5, 3
    for y in range(height):
        for x in range(width):
            for number, step in enumerate(steps):
                action = Codec(width, height, directions).decode(Order((y * width + x) * 4 + number, half))
                assert divmod(action // 8, width) == (y, x)
                assert action % 8 // 4 == half
                assert OUR_STEPS[action % 4] == step


def test_examples_by_hand() -> None:
    engine, experience = Codec(5, 3, ENGINE), Codec(5, 3, EXPERIENCE)
    assert engine.encode(7 * 8 + RIGHT) == Order(29, False)
    assert experience.encode(7 * 8 + RIGHT) == Order(31, False)
    assert engine.encode(7 * 8 + 4 + DOWN) == Order(30, True)
    assert experience.encode(7 * 8 + 4 + DOWN) == Order(29, True)
    assert engine.encode(120) is None
    assert experience.decode(None) == 120


@pytest.mark.parametrize("action", [-1, 121, 135])
def test_what_the_other_system_cannot_do_is_refused(action: int) -> None:
    with pytest.raises(PlaymillError):
        Codec(5, 3).encode(action)


@pytest.mark.parametrize("index", [-1, 60])
def test_an_order_off_the_board_is_refused(index: int) -> None:
    with pytest.raises(PlaymillError, match="size"):
        Codec(5, 3).decode(Order(index, False))


def test_a_codec_that_cannot_be_is_refused() -> None:
    with pytest.raises(PlaymillError, match="at least one square"):
        Codec(0, 3)
    with pytest.raises(PlaymillError, match="each of 0 to 3"):
        Codec(5, 3, (UP, UP, DOWN, LEFT))
