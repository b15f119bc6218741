"""`make inference`: predictions of a trained model for its test split or for new examples."""

import logging
import sys
import uuid

from common import devices
from common.errors import SettingsError, run_main
from common.native_watchdog import start_heartbeat
from common.processes import tfq_environment
from common.settings import Settings
from common.settings.launcher_variables import heartbeat_file, job_id
from common.waiting import Waiting
from inference import model_source


def main() -> int:
    """Choose the model and the examples, then predict in this process or with local workers."""
    settings = Settings.from_args(sys.argv[1:], "infer")
    start_heartbeat(heartbeat_file())
    if settings.job.target != "local":
        raise SettingsError(f"TARGET={settings.job.target}: inference runs with TARGET=local only")
    logging.basicConfig(format="%(message)s")
    source = model_source.choose_model(settings)
    tfq_environment.enter_if_needed(source.settings.get("simulator", ""), "inference")
    with Waiting("the weights and the examples"):
        with source.local_weights():
            pass  # verify the digest now, before TensorFlow is imported, which takes seconds

        from inference import chunk_plan, inference_input

        chunk_plan.check_settings(settings.training)
        inputs = inference_input.resolve_input(settings, source)
    devices.prepare(settings, settings.inference.parallelism)
    if settings.inference.parallelism > 1:
        from inference.local_workers import LocalWorkers

        job = job_id() or uuid.uuid4().hex
        plan = chunk_plan.agree_on_plan(settings, source, inputs, job)
        return LocalWorkers(settings, plan, job).run()

    # TensorFlow is imported last, so that mistakes so far are reported within a second or two.
    with Waiting("the import of TensorFlow"):
        from inference import single_process

    with devices.entered(settings):
        single_process.predict_in_process(settings, source, inputs)
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
