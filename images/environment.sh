#!/bin/bash
# For the Dockerfile's build stages: environment.sh make --requirement=LOCK... | slim | unpack WHEEL...
#
# `make` installs locks into /opt/venv. `slim` removes files that are not needed at run time and
# compiles the rest to bytecode. A read-only container would compile it again at every start.
# `unpack` puts the wheel of qfleet into /opt/qfleet, without its command: pods run modules.
set -euo pipefail

case $1 in
make)
    python3 -m venv --without-pip /opt/venv
    python3 -m venv /opt/installer # keeps pip and uv out of the image
    /opt/installer/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --no-deps \
        --only-binary=:all: --require-hashes --requirement requirements/installer.txt
    # requirements/gpu.txt has a TensorFlow that replaces tensorflow-cpu.
    [[ $* != *gpu.txt* ]] || echo tensorflow-cpu >/opt/installer/excludes
    touch /opt/installer/excludes
    # The locks are complete, so there is nothing to resolve.
    UV_SYSTEM_CERTS=1 UV_HTTP_RETRIES=10 UV_LINK_MODE=hardlink UV_CACHE_DIR=/opt/installer/cache \
        /opt/installer/bin/uv pip install --quiet --python /opt/venv --no-deps --no-build --require-hashes \
        --excludes /opt/installer/excludes "${@:2}"
    rm -r /opt/installer
    ;;
slim)
    cd /opt/venv/lib/python3.*/site-packages
    rm -rf cmake cmake-*.dist-info ninja ninja-*.dist-info /opt/venv/bin/{cmake,cpack,ctest,ninja} # for checkouts
    find . -type d \( -name tests -o -name include \) -prune -exec rm -rf {} +
    find . -type f \( -name '*.a' -o -name '*.h' -o -name '*.pxd' -o -name '*.pyi' -o -name '*.pyx' \) -delete
    # Only TensorFlow's libraries contain debug symbols.
    find . -name 'libtensorflow_*.so.*' -exec strip --strip-unneeded {} +
    # unchecked-hash: bytecode is not compared with its source, as neither changes in an image.
    /opt/venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash .
    # Only what needs it: a file that is touched is copied into the next layer.
    find /opt/venv \( ! -perm -a=r -o -type d ! -perm -a=x \) -exec chmod a+rX {} +
    ;;
unpack)
    python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --no-deps --no-index \
        --root-user-action=ignore --target /opt/qfleet "${@:2}"
    rm -r /opt/qfleet/bin
    python3 -m compileall -q --invalidation-mode unchecked-hash /opt/qfleet
    chmod -R a+rX /opt/qfleet
    ;;
esac
