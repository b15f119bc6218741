#!/bin/bash
# In the Dockerfile's build stages alone: environment.sh make LOCK | slim
#
# `make` installs a lock into /opt/venv. `slim` removes what is of no use when it runs, and compiles
# the rest to bytecode, which a read-only container could not keep and would make at every start.
set -euo pipefail

case $1 in
make)
    python3 -m venv --without-pip /opt/venv
    python3 -m venv /opt/installer # pip itself is not to be in an image
    # The locks are complete, so pip has nothing to resolve.
    /opt/installer/bin/python -m pip --python /opt/venv/bin/python install --quiet --disable-pip-version-check \
        --no-cache-dir --no-compile --no-deps --only-binary=:all: --require-hashes --requirement "$2"
    cd /opt/venv/lib/python3.*/site-packages
    # TensorFlow without CUDA goes by another name; who asks for TensorFlow's version means it as well.
    for info in tensorflow_cpu-*.dist-info; do
        [[ ! -d $info ]] || cp -r "$info" "${info/_cpu/}"
    done
    ;;
slim)
    cd /opt/venv/lib/python3.*/site-packages
    find . -type d \( -name tests -o -name include \) -prune -exec rm -rf {} +
    find . -type f \( -name '*.a' -o -name '*.h' -o -name '*.pxd' -o -name '*.pyi' -o -name '*.pyx' \) -delete
    # Only TensorFlow's come with symbols for a debugger.
    find . -name 'libtensorflow_*.so.*' -exec strip --strip-unneeded {} +
    # Bytecode that is never compared with its source: the image changes neither.
    /opt/venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash .
    chmod -R a+rX /opt/venv
    ;;
esac
