"""The objects of an inference job as plain dicts, from settings; see launch/objects.py."""

from common.errors import SettingsError
from common.settings import Settings
from common.settings.launcher_variables import JOB_ID
from launch.job_parts import (
    CLUSTER_AUTHORITY,
    HEARTBEAT,
    MAX_DNS_LABEL_CHARACTERS,
    limits,
    probes,
    queued,
    settings_map,
    spread,
    threads,
    with_deadline,
)
from launch.names import inference_job, part_of_job
from launch.network import client_egress, policy
from launch.pods import EVENTS_TO_LOG, Object, account, container, labels, manifest, pod
from launch.user_model import UserModel

MAX_POD_RETRIES = 6


def inference(settings: Settings) -> list[Object]:
    """Return the objects of an inference job: a Job of PARALLELISM pods.

    Raises:
        SettingsError: A setting can't be used in a cluster.
    """
    run = settings.run_name
    _check_inference(settings)
    settings = with_deadline(settings)
    model = UserModel.from_settings(settings)
    return [
        account(),
        settings_map("inference", settings),
        *model.objects(run, "inference"),
        policy(
            part_of_job(run, "inference"),
            "inference",
            labels("inference", run),
            opens=client_egress(settings.cluster.storage_cidr),
            run=run,
        ),
        _inference_job(model, settings),
    ]


def _inference_container(model: UserModel, settings: Settings) -> Object:
    indexed = settings.inference.parallelism > 1
    # Pods of an Indexed Job restart one by one; its uid identifies the pods that work together.
    uid = {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}
    job_id = {"name": JOB_ID, "valueFrom": {"fieldRef": uid}}
    attempt = [job_id, CLUSTER_AUTHORITY] if indexed else []
    return container(
        "inference",
        "worker",
        ["python", "-m", "inference.worker" if indexed else "inference"],
        limits(settings.cluster),
        envFrom=[{"configMapRef": {"name": part_of_job(settings.run_name, "inference")}}],
        env=[EVENTS_TO_LOG, threads(settings.training), HEARTBEAT, *attempt],
        **probes(),
        volumeMounts=model.mounts,
    )


def _inference_job(model: UserModel, settings: Settings) -> Object:
    run, parallelism = settings.run_name, settings.inference.parallelism
    fields: Object = {"restartPolicy": "Never", "volumes": model.volumes(run, "inference")}
    if parallelism > 1:
        fields["affinity"] = spread(labels("inference", run))
    spec = {
        **(_indexed(parallelism) if parallelism > 1 else {"backoffLimit": MAX_POD_RETRIES}),
        "podFailurePolicy": _failure_policy(),
        "activeDeadlineSeconds": settings.fault_tolerance.deadline,
        "ttlSecondsAfterFinished": settings.cluster.ttl,
        "template": {
            "metadata": {"labels": labels("inference", run)},
            "spec": pod(_inference_container(model, settings), settings, **fields),
        },
    }
    job = manifest("batch/v1", "Job", inference_job(run), "inference", run, spec=spec)
    return queued(job, settings.cluster)


def _indexed(pods: int) -> Object:
    """Return the fields of a Job whose pods have ranks and are retried one by one."""
    return {
        "completionMode": "Indexed",
        "completions": pods,
        "parallelism": pods,
        "backoffLimitPerIndex": MAX_POD_RETRIES,
    }


def _failure_policy() -> Object:
    """Return the policy for failed pods of a Job.

    1 is a bug and 2 an error of the user's: a retry would end in the same way. Codes of 128 and
    more are retried, and evicted pods do not count as failures.
    """
    codes = {"containerName": "inference", "operator": "In", "values": [1, 2]}
    return {
        "rules": [
            {"action": "FailJob", "onExitCodes": codes},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        ]
    }


def _check_inference(settings: Settings) -> None:
    shards, parallelism = settings.training.state_shards, settings.inference.parallelism
    if shards > 1:
        raise SettingsError(
            f"STATE_SHARDS={shards} shards states in training only: leave STATE_SHARDS out of"
            " inference; PARALLELISM is the number of pods"
        )
    last = f"{inference_job(settings.run_name)}-{parallelism - 1}"
    if parallelism > 1 and len(last) > MAX_DNS_LABEL_CHARACTERS:
        raise SettingsError(
            f"RUN={settings.run_name} with PARALLELISM={parallelism} needs the pod name {last} of"
            f" {len(last)} characters, but the cluster's DNS allows {MAX_DNS_LABEL_CHARACTERS}:"
            " PARALLELISM=1 uses a Job without numbered pods"
        )
