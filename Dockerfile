# The images of pods, one stage each: storage, tensorboard, worker, worker-gpu. Build: `make images`.
# They run as an unprivileged user, write only to /tmp, and contain neither a compiler nor an installer.
# /opt/venv/sbom.cdx.json lists their content (CycloneDX).
#
# The order matters: an engine without BuildKit builds all stages in front of its target.

# Python 3.11.16 on Debian 12 of September 2026, for all architectures.
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM $BASE AS build
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /qfleet
COPY images/environment.sh /usr/local/bin/

FROM $BASE AS source
WORKDIR /qfleet
COPY VERSION ./
COPY common common
COPY qfleet qfleet
COPY training training
COPY inference inference
COPY launch/__init__.py launch/emulator.py launch/tensorboard_launcher.py launch/
RUN python3 -m compileall -q --invalidation-mode unchecked-hash . && chmod -R a+rX .

FROM $BASE AS runtime
RUN useradd --uid 65532 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin qfleet && \
    rm -rf /usr/bin/pip* /usr/local/bin/pip* "$(python3 -c 'import os, pip; print(os.path.dirname(pip.__file__))')"*
ENV PATH=/opt/venv/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
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
# Without launch/__init__.py, which imports common: the emulator needs neither.
COPY --from=source /qfleet/launch/emulator.py launch/
COPY --from=source /qfleet/launch/__pycache__/emulator.*.pyc launch/__pycache__/

FROM build AS tensorboard-build
COPY requirements/installer.txt requirements/tensorboard.txt requirements/
RUN environment.sh make --requirement=requirements/tensorboard.txt && environment.sh slim
COPY --from=runtime /var/lib/dpkg/status /var/lib/dpkg/status.base
COPY images/sbom.py VERSION ./
RUN python3 sbom.py tensorboard requirements/tensorboard.txt /opt/venv/sbom.cdx.json

FROM runtime AS tensorboard
COPY --from=tensorboard-build /opt/venv /opt/venv
COPY --from=source /qfleet /qfleet

FROM build AS worker-build
COPY requirements/installer.txt requirements/worker.txt requirements/
RUN environment.sh make --requirement=requirements/worker.txt
# Only the native library's sources: other changes do not rebuild it.
COPY qfleet/__init__.py qfleet/
COPY qfleet/tensorflow/__init__.py qfleet/tensorflow/runtime.py qfleet/tensorflow/
COPY qfleet/native qfleet/native
RUN /opt/venv/bin/python -m qfleet.native && test -d qfleet/native/built
RUN environment.sh slim
COPY --from=runtime /var/lib/dpkg/status /var/lib/dpkg/status.base
COPY images/sbom.py VERSION ./
RUN python3 sbom.py worker requirements/worker.txt /opt/venv/sbom.cdx.json

FROM runtime AS worker
COPY --from=worker-build /opt/venv /opt/venv
COPY --from=source /qfleet /qfleet
COPY --from=worker-build /qfleet/qfleet/native/built qfleet/native/built

FROM build AS cuda-build
# The environment that builds wheels has nvcc.
COPY requirements/installer.txt requirements/wheel.txt requirements/
RUN environment.sh make --requirement=requirements/wheel.txt
COPY qfleet/__init__.py qfleet/
COPY qfleet/native qfleet/native
RUN /opt/venv/bin/python -m qfleet.native.cuda

FROM build AS worker-gpu-build
COPY requirements/installer.txt requirements/worker.txt requirements/gpu.txt requirements/
RUN environment.sh make --requirement=requirements/worker.txt --requirement=requirements/gpu.txt
COPY qfleet/__init__.py qfleet/
COPY qfleet/tensorflow/__init__.py qfleet/tensorflow/runtime.py qfleet/tensorflow/
COPY qfleet/native qfleet/native
RUN /opt/venv/bin/python -m qfleet.native && test -d qfleet/native/built
RUN environment.sh slim
COPY --from=runtime /var/lib/dpkg/status /var/lib/dpkg/status.base
COPY images/sbom.py VERSION ./
RUN python3 sbom.py worker-gpu requirements/worker.txt requirements/gpu.txt /opt/venv/sbom.cdx.json

FROM runtime AS worker-gpu
COPY --from=worker-gpu-build /opt/venv /opt/venv
COPY --from=source /qfleet /qfleet
COPY --from=worker-gpu-build /qfleet/qfleet/native/built qfleet/native/built
COPY --from=cuda-build /qfleet/qfleet/native/built qfleet/native/built
# GKE and NVIDIA's container runtime mount the driver's libraries here.
ENV LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64 NVIDIA_DRIVER_CAPABILITIES=compute,utility
