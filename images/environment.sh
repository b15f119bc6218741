#!/bin/bash
# For the Dockerfile's build stages: environment.sh make LOCK | slim
#
# `make` installs a lock into /opt/venv. `slim` removes files that are not needed at run time and
# compiles the rest to bytecode. A read-only container would compile it again at every start.
set -euo pipefail

case $1 in
make)
    python3 -m venv --without-pip /opt/venv
    python3 -m venv /opt/installer # keeps pip out of the image
    # The locks are complete, so pip has nothing to resolve.
    /opt/installer/bin/python -m pip --python /opt/venv/bin/python install --quiet --disable-pip-version-check \
        --no-cache-dir --no-compile --no-deps --only-binary=:all: --require-hashes --requirement "$2"
    cd /opt/venv/lib/python3.*/site-packages
    # TensorFlow without CUDA has another name; packages look up the version of "tensorflow".
    for info in tensorflow_cpu-*.dist-info; do
        [[ ! -d $info ]] || cp -r "$info" "${info/_cpu/}"
    done
    ;;
slim)
    cd /opt/venv/lib/python3.*/site-packages
    rm -rf cmake cmake-*.dist-info ninja ninja-*.dist-info /opt/venv/bin/{cmake,cpack,ctest,ninja} # built the engine
    find . -type d \( -name tests -o -name include \) -prune -exec rm -rf {} +
    find . -type f \( -name '*.a' -o -name '*.h' -o -name '*.pxd' -o -name '*.pyi' -o -name '*.pyx' \) -delete
    # Only TensorFlow's libraries contain debug symbols.
    find . -name 'libtensorflow_*.so.*' -exec strip --strip-unneeded {} +
    # unchecked-hash: bytecode is not compared with its source, as neither changes in an image.
    /opt/venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash .
    chmod -R a+rX /opt/venv
    ;;
esac
