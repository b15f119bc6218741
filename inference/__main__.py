"""`make inference`: trained weights answer the run's own test split, or new examples."""

import logging
import sys
import uuid

from common.errors import SettingsError, run_main
from common.settings import Settings
from inference import model_source


def main() -> int:
    """Weights -> examples -> model -> answers -> predictions, report."""
    settings = Settings.from_args(sys.argv[1:])
    if settings.job.target != "local":
        raise SettingsError(f"TARGET={settings.job.target}: inference runs with TARGET=local only")
    logging.basicConfig(format="%(message)s")
    chosen = model_source.choose_model(settings)
    with chosen.local_weights():
        pass  # compared now, before the seconds that TensorFlow takes to load

    from inference import chunk_plan, inference_input

    chunk_plan.check(settings)
    question = inference_input.resolve_input(settings, chosen)
    if settings.inference.parallelism > 1:
        from inference.local_workers import LocalWorkers

        settings = settings.replace(job_id=settings.job.job_id or uuid.uuid4().hex)
        return LocalWorkers(settings, chunk_plan.agree_on_plan(settings, chosen, question)).answer()

    # TensorFlow only now: what was wrong so far has been said within a second or two.
    from inference import single_process

    single_process.predict_in_process(settings, chosen, question)
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
