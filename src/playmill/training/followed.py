"""The policies of a run, kept up to date: what was published since is put into use between two batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from playmill.experience.weights_watch import WeightsWatch
from playmill.serving.answers import Answered, PolicyTable
from playmill.telemetry.instruments import NO_INSTRUMENTS, Instruments
from playmill.training.meters import WeightsMeters

FIRST_WEIGHTS_S = 300.0
"""How long the learner's first weights are waited for."""


class Followed:
    """A table of policies that follows the learner's."""

    def __init__(
        self,
        table: PolicyTable,
        weights: WeightsWatch,
        past: WeightsWatch,
        stopped: Callable[[], bool],
        instruments: Instruments = NO_INSTRUMENTS,
    ) -> None:
        self.table, self._weights, self._past = table, weights, past
        self.opponents = 0
        """Which set of past policies there is; another number, another set."""
        self._tracer = instruments.tracer
        self._meters = WeightsMeters(instruments.meters, weights, past) if instruments.meters.on else None
        table.load(*weights.first(FIRST_WEIGHTS_S, stopped))

    @property
    def past(self) -> int:
        return self.table.past

    def renew(self) -> None:
        if (found := self._weights.take()) is not None:
            with self._tracer.span("weights.load", version=found[0]):
                self.table.load(*found)
            if self._meters is not None:
                self._meters.taken()
        if (found := self._past.take()) is not None:
            self.table.load_past(found[1])
            self.opponents = found[0]
        if self._meters is not None:
            self._meters.look()

    def answer(
        self,
        observation: npt.NDArray[np.uint8],
        legal: npt.NDArray[np.uint8],
        driver: npt.NDArray[np.uint8],
    ) -> Answered:
        return self.table.answer(observation, legal, driver)

    def close(self) -> None:
        self.table.close()
