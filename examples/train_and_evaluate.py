"""A short training from Python, then an evaluation of what came out.

python examples/train_and_evaluate.py [TURNS]"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playmill.league.evaluate import evaluate
from playmill.policies import Network
from playmill.training.config import Evaluation, Train
from playmill.training.runs import create_run
from playmill.training.status import Status
from playmill.training.trainer import Trainer


class Printer:
    def update(self, status: Status) -> None:
        print(
            f"{status.turns:9,} turns  {status.turns_per_s:9,.0f}/s  entropy {status.losses['entropy']:.3f}"
        )

    def note(self, text: str) -> None:
        print(text)


def main(turns: int = 1_000_000) -> None:
    settings = Evaluation(every=0, against=("random",), final_deals=50)
    config = Train("skull_king", turns=turns, games=256, network=Network((64, 64)), evaluation=settings)
    with tempfile.TemporaryDirectory() as folder:
        run = create_run(Path(folder) / "run", config)
        trainer = Trainer(run, Printer())
        trainer.run()
        run.release()
    for bot in ("random", "easy", "hard"):
        result = evaluate(config.spec, trainer.policy, bot, deals=200)
        print(f"against {bot:7} wins {result.win_share:.3f} ({result.low:.3f} to {result.high:.3f})")


if __name__ == "__main__":
    main(*(int(n) for n in sys.argv[1:2]))
