"""Segments for tests."""

import numpy as np

from playmill.experience.segment import Identity, Segment, SegmentShape, encode

SHAPE = SegmentShape(steps=8, seats=2, observation_bytes=13, legal_bytes=3, schema_hash=0xFEED)


def a_segment(identity, shape=SHAPE):
    """A segment with content of its own, the same for the same identity."""
    rng = np.random.default_rng([n for n in identity[1:] if isinstance(n, int) and n >= 0])
    steps, seats, observation_bytes, legal_bytes, _ = shape
    action = rng.integers(0, 8 * legal_bytes, steps, np.int32)
    legal = rng.integers(0, 256, (steps, legal_bytes), np.uint8)
    legal[np.arange(steps), action >> 3] |= (1 << (action & 7)).astype(np.uint8)
    return Segment(
        identity,
        observation=rng.integers(0, 256, (steps, observation_bytes), np.uint8),
        legal=legal,
        seat=rng.integers(0, seats, steps, np.uint8),
        role=rng.integers(0, 256, steps, np.uint8),
        driver=rng.integers(0, 3, steps, np.uint8),
        action=action,
        log_probability=-rng.random(steps, np.float32),
        value=rng.random(steps, np.float32),
        rewards=rng.random((steps, seats), np.float32),
        over=rng.integers(0, 2, steps, np.uint8),
        version=rng.integers(0, 100, steps, np.uint32),
    )


def a_message(identity: Identity, shape=SHAPE):
    return bytes(encode(a_segment(identity, shape), shape))
