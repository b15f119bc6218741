"""Client of a Kubernetes cluster: commands, manifests, diagnosis, logs; without TensorFlow."""

import common.import_path  # noqa: F401 - it comes first: see there
