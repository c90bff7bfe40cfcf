"""A pool on the card behind the interface of the pool on the CPU, so that one suite tries both."""

import numpy as np

from playmill.pools import Outcome, Turns
from playmill.pools.cuda import CudaPool, DeviceArray


class HostPool:
    """Hands out copies on the host; actions and bot numbers go up to the card. The rest is CudaPool's own."""

    def __init__(self, game, games, **more):
        more.pop("threads", None)  # the card has its own
        self.card = CudaPool(game, games, **more)
        self._actions = DeviceArray((games,), "int32")
        self._kinds = DeviceArray((games,), "uint8")

    def __getattr__(self, name):
        return getattr(self.card, name)

    def turns(self):
        return Turns(*(np.asarray(column) for column in self.card.turns()))

    def act(self, actions):
        self._actions.fill(actions)
        return Outcome(*(np.asarray(column) for column in self.card.act(self._actions)))

    def bot_actions(self, bots="random"):
        if not isinstance(bots, str):
            self._kinds.fill(bots)
            bots = self._kinds
        return np.asarray(self.card.bot_actions(bots))
