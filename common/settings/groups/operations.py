"""Settings of operations: monitoring, and the cluster."""

import ipaddress
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le
from pydantic import StringConstraints, field_validator

from common.settings.fields import Port, Scope, Scopes, Setting, SettingsGroup

_PLACEMENT = frozenset({Scope.PLACEMENT})
_MEASURED_PLACEMENT = frozenset({Scope.PLACEMENT, Scope.PROFILE_KEY})


class MonitoringSettings(SettingsGroup):
    """Monitoring: the profiler, and the upload of logs."""

    title: ClassVar[str] = "Monitoring"
    scope: ClassVar[Scopes] = frozenset({Scope.WORKER, Scope.PLAN_FILE})

    profile_steps: Annotated[
        str,
        StringConstraints(pattern=r"^(\d+:\d+)?$"),
        Setting(
            "training steps to profile",
            allowed="first:last with 1 <= first <= last, for example 10:20",
            also=frozenset({Scope.GROUP}),
        ),
    ] = ""
    profiler_port: Annotated[
        Port,
        Setting(
            "port of a worker's profiler (on one machine: plus the rank), usually 2223; 0: no"
            " profiler"
        ),
    ] = 0
    log_upload_interval: Annotated[
        float,
        Ge(0.1),
        Le(3600),
        Setting("interval between uploads of logs to gs:// storage", unit="seconds"),
    ] = 10.0

    @field_validator("profile_steps")
    @classmethod
    def _check_profile_steps(cls, value: str) -> str:
        if value:
            first, last = map(int, value.split(":"))
            if not 1 <= first <= last:
                raise ValueError("first and last are not 1 <= first <= last")
        return value


class ClusterSettings(SettingsGroup):
    """The Kubernetes cluster: context, images, resources and scheduling of a job's pods."""

    title: ClassVar[str] = "Cluster"
    scope: ClassVar[Scopes] = frozenset({Scope.PLAN_FILE})

    context: Annotated[
        str,
        Setting(
            "kubectl context; default: the current context",
            allowed="the name of a context",
            also=_MEASURED_PLACEMENT,
        ),
    ] = ""
    namespace: Annotated[
        str,
        StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$"),
        Setting(
            "namespace; default: the namespace of the context",
            allowed="the name of a namespace",
            also=_MEASURED_PLACEMENT,
        ),
    ] = ""
    job_api: Annotated[
        Literal["auto", "tfjob", "jobset", "trainjob"],
        Setting(
            "API that runs the workers; auto: the first one that the cluster serves, tfjob in"
            " manifests",
            also=_PLACEMENT,
        ),
    ] = "auto"
    overlay: Annotated[
        str,
        StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$"),
        Setting("kustomize overlay", allowed="a folder of k8s/overlays", also=_PLACEMENT),
    ] = "local"
    image: Annotated[
        str,
        Setting(
            "container images; default: the images of the overlay",
            allowed="registry/name, to which -worker and -tensorboard are appended",
            also=_MEASURED_PLACEMENT,
        ),
    ] = ""
    service_account: Annotated[
        str,
        StringConstraints(pattern=r"^([^@\s]+@[^@\s]+)?$"),
        Setting(
            "Google service account of the pods; default: the account of the overlay",
            allowed="name@project.iam.gserviceaccount.com",
        ),
    ] = ""
    cpu: Annotated[
        str,
        StringConstraints(pattern=r"^([1-9]\d*|[1-9]\d*m)$"),
        Setting(
            "CPUs per worker",
            unit="cores",
            allowed="a whole number, or millicores such as 500m",
            also=_MEASURED_PLACEMENT,
        ),
    ] = "2"
    memory: Annotated[
        str,
        StringConstraints(pattern=r"^[1-9]\d*(Mi|Gi)$"),
        Setting("memory per worker", allowed="a quantity such as 4Gi or 500Mi", also=_PLACEMENT),
    ] = "4Gi"
    scratch: Annotated[
        str,
        StringConstraints(pattern=r"^[1-9]\d*(Mi|Gi)$"),
        Setting(
            "disk space per worker, for temporary files and logs",
            allowed="a quantity such as 4Gi or 500Mi",
            also=_PLACEMENT,
        ),
    ] = "4Gi"
    storage_cidr: Annotated[
        str,
        Setting(
            "networks of the gs:// service that pods may reach, at port 443; private addresses are"
            " excluded from larger networks",
            allowed="CIDRs separated by commas, for example 199.36.153.8/30",
        ),
    ] = "0.0.0.0/0"
    queue: Annotated[
        str,
        Setting(
            "Kueue queue that admits the job", allowed="the name of a LocalQueue", also=_PLACEMENT
        ),
    ] = ""
    queue_priority: Annotated[
        str,
        Setting(
            "Kueue priority of the job, by which it preempts others of its queue; the default is"
            " that of PRIORITY_CLASS",
            allowed="the name of a WorkloadPriorityClass",
            also=_PLACEMENT,
        ),
    ] = ""
    priority_class: Annotated[
        str,
        Setting("priority of the pods", allowed="the name of a PriorityClass", also=_PLACEMENT),
    ] = ""
    gang_scheduling: Annotated[
        bool,
        Setting("schedule all workers at once; the operator must run with a gang scheduler"),
    ] = False
    ttl: Annotated[
        int,
        Ge(10),  # a client that follows the job needs time to read its result
        Le(31_536_000),
        Setting("time that the cluster keeps a finished job", unit="seconds"),
    ] = 86_400
    dry_run: Annotated[
        bool,
        Setting("print the changes without applying them"),
    ] = False

    @field_validator("storage_cidr")
    @classmethod
    def _check_storage_cidr(cls, value: str) -> str:
        for text in value.split(","):
            network = ipaddress.ip_network(text)  # its ValueError names the text
            if network.is_link_local:
                raise ValueError(f"{text} is link-local, which holds clouds' metadata servers")
        return value
