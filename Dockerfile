# The images of pods, one stage each: storage, tensorboard, worker, worker-gpu. Build: `make images`, which puts the
# wheel of qfleet into dist/images/ first.
# They run as an unprivileged user, write only to /tmp, and contain neither a compiler nor an installer.
# /opt/venv/sbom.cdx.json lists their content (CycloneDX).
#
# The order matters: an engine without BuildKit builds all stages in front of its target.

# Python 3.11.16 on Debian 12 of September 2026, for all architectures.
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM $BASE AS build
RUN apt-get update && apt-get install --yes --no-install-recommends binutils && rm -rf /var/lib/apt/lists/*
WORKDIR /qfleet
COPY images/environment.sh /usr/local/bin/

# The wheel is a layer of its own: a change of qfleet leaves the layers of its dependencies.
FROM $BASE AS package
COPY dist/images/*.whl images/environment.sh /tmp/
RUN /tmp/environment.sh unpack /tmp/*.whl

FROM $BASE AS runtime
RUN useradd --uid 65532 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin qfleet && \
    rm -rf /usr/bin/pip* /usr/local/bin/pip* "$(python3 -c 'import os, pip; print(os.path.dirname(pip.__file__))')"*
ENV PATH=/opt/venv/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# The service lies in the package, as in every installation; PYTHONSAFEPATH: a file of the user replaces no module.
ENV PYTHONPATH=/opt/qfleet/qfleet/_service:/opt/qfleet PYTHONSAFEPATH=1
# Files of users' models are mounted here.
WORKDIR /qfleet
USER 65532:65532

FROM build AS storage-build
COPY requirements/installer.txt requirements/storage.txt requirements/
RUN environment.sh make --requirement=requirements/storage.txt && environment.sh slim
COPY --from=runtime /var/lib/dpkg/status /var/lib/dpkg/status.base
COPY images/sbom.py VERSION ./
RUN python3 sbom.py storage requirements/storage.txt /opt/venv/sbom.cdx.json

FROM runtime AS storage
COPY --from=storage-build /opt/venv /opt/venv
COPY --from=package /opt/qfleet /opt/qfleet

FROM build AS tensorboard-build
COPY requirements/installer.txt requirements/tensorboard.txt requirements/
RUN environment.sh make --requirement=requirements/tensorboard.txt && environment.sh slim
COPY --from=runtime /var/lib/dpkg/status /var/lib/dpkg/status.base
COPY images/sbom.py VERSION ./
RUN python3 sbom.py tensorboard requirements/tensorboard.txt /opt/venv/sbom.cdx.json

FROM runtime AS tensorboard
COPY --from=tensorboard-build /opt/venv /opt/venv
COPY --from=package /opt/qfleet /opt/qfleet

FROM build AS worker-build
COPY requirements/installer.txt requirements/worker.txt requirements/
RUN environment.sh make --requirement=requirements/worker.txt && environment.sh slim
COPY --from=runtime /var/lib/dpkg/status /var/lib/dpkg/status.base
COPY images/sbom.py VERSION ./
RUN python3 sbom.py worker requirements/worker.txt /opt/venv/sbom.cdx.json

FROM runtime AS worker
COPY --from=worker-build /opt/venv /opt/venv
COPY --from=package /opt/qfleet /opt/qfleet

# `make images GPU=1` adds the wheel qfleet-cuda.
FROM $BASE AS cuda-package
COPY dist/images/*.whl dist/images/cuda/*.whl images/environment.sh /tmp/
RUN /tmp/environment.sh unpack /tmp/*.whl

FROM build AS worker-gpu-build
COPY requirements/installer.txt requirements/worker.txt requirements/gpu.txt requirements/
RUN environment.sh make --requirement=requirements/worker.txt --requirement=requirements/gpu.txt && environment.sh slim
COPY --from=runtime /var/lib/dpkg/status /var/lib/dpkg/status.base
COPY images/sbom.py VERSION ./
RUN python3 sbom.py worker-gpu requirements/worker.txt requirements/gpu.txt /opt/venv/sbom.cdx.json

FROM runtime AS worker-gpu
COPY --from=worker-gpu-build /opt/venv /opt/venv
COPY --from=cuda-package /opt/qfleet /opt/qfleet
# GKE and NVIDIA's container runtime mount the driver's libraries here.
ENV LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64 NVIDIA_DRIVER_CAPABILITIES=compute,utility
