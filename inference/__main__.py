"""`make inference`: trained weights answer the run's own test split, or new examples."""

import logging
import sys
import uuid

from common.errors import SettingsError, run_main
from common.settings import Settings
from inference import source


def main() -> int:
    """Weights -> examples -> model -> answers -> predictions, report."""
    settings = Settings.from_args(sys.argv[1:])
    if settings.target != "local":
        raise SettingsError(f"TARGET={settings.target}: inference runs with TARGET=local only")
    logging.basicConfig(format="%(message)s")
    chosen = source.choose(settings)
    with chosen.local_weights():
        pass  # compared now, before the seconds that TensorFlow takes to load

    from inference import examples, plan

    plan.check(settings)
    question = examples.ask(settings, chosen)
    if settings.parallel > 1:
        from inference.team import Team

        settings = settings.model_copy(update={"gang": settings.gang or uuid.uuid4().hex})
        return Team(settings, plan.agree(settings, chosen, question)).answer()

    # TensorFlow only now: what was wrong so far has been said within a second or two.
    from inference import alone

    alone.answer(settings, chosen, question)
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
