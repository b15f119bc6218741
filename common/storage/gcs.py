"""Google Cloud Storage as a storage backend; imported for gs:// paths only.

cloudpathlib provides the paths. Requests use google-cloud-storage directly, since cloudpathlib
reads through a file cache that may be stale. STORAGE_EMULATOR_HOST (http://host:port) is the
address of an emulator, which is used without credentials.
"""

import base64
import functools
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import google_crc32c
import requests
import urllib3

with warnings.catch_warnings():
    # On Python 3.11 the library announces the end of its support.
    warnings.simplefilter("ignore", FutureWarning)
    import google.auth.exceptions
    from cloudpathlib import GSClient, GSPath
    from google.api_core import exceptions as api
    from google.api_core.retry import Retry
    from google.auth.transport.urllib3 import AuthorizedHttp
    from google.cloud import storage as google_storage
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
    from google.cloud.storage.retry import DEFAULT_RETRY

from common.errors import QfleetError, StorageError, StorageUnavailable
from common.storage import base

CONNECT_TIMEOUT_SECONDS = 5.0
RESPONSE_TIMEOUT_SECONDS = 30.0
MAX_OPEN_CONNECTIONS = 16

_UNAVAILABLE = (
    api.RetryError,
    api.ServerError,
    api.TooManyRequests,
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    urllib3.exceptions.HTTPError,
    google.auth.exceptions.TransportError,
    DataCorruption,
)
_CREDENTIALS = (
    google.auth.exceptions.DefaultCredentialsError,
    google.auth.exceptions.RefreshError,
)


class GoogleCloudStorage:
    """Implements `StorageBackend` for gs:// paths."""

    def read(self, path: GSPath) -> bytes:
        try:
            return _retry()(_download)(path)
        except api.NotFound:
            _require_bucket(path)
            raise FileNotFoundError(f"{path} does not exist") from None

    def write(self, path: GSPath, data: bytes | Path) -> None:
        # An object appears when its upload is complete, so this is atomic.
        if isinstance(data, Path):
            _blob(path).upload_from_filename(str(data), **_request_options())
        else:
            _upload(path, data)

    def create_exclusive(self, path: GSPath, data: bytes) -> bool:
        try:
            _upload(path, data, if_generation_match=0)
        except api.PreconditionFailed:
            # Either another process was faster, or a retry found what its first try had written.
            return self.read(path) == data
        return True

    def is_file(self, path: GSPath) -> bool:
        # A bucket itself has no object name.
        return bool(path.blob) and bool(_blob(path).exists(**_request_options()))

    def exists(self, path: GSPath) -> bool:
        if self.is_file(path):
            return True
        prefix = _prefix(path)
        below = _bucket(path).list_blobs(prefix=prefix, max_results=1, **_request_options())
        return bool(list(below)) or not prefix

    def children(self, path: GSPath) -> list[GSPath]:
        prefix = _prefix(path)
        found = _bucket(path).list_blobs(prefix=prefix, delimiter="/", **_request_options())
        names = [blob.name for blob in found]  # `prefixes` is filled while this is read
        children = [name.removeprefix(prefix).rstrip("/") for name in [*names, *found.prefixes]]
        return [path / child for child in children if child]

    def files(self, path: GSPath) -> list[GSPath]:
        return list(_objects_below(path))

    def sizes(self, path: GSPath) -> dict[str, int]:
        prefix = f"{path.blob.rstrip('/')}/"
        found = _bucket(path).list_blobs(prefix=prefix, delimiter="/", **_request_options())
        return {blob.name.removeprefix(prefix): int(blob.size) for blob in found}

    def delete(self, path: GSPath) -> None:
        for each in [path, *_objects_below(path)]:
            if each.blob:
                try:
                    _blob(each).delete(**_request_options())
                except api.NotFound:
                    continue  # or deleted by a first try whose response was lost


BACKEND = GoogleCloudStorage()


def path(bucket: str, key: str) -> GSPath:
    """Return the path gs://bucket/key, on a client that all paths of this process share."""
    return GSPath(f"gs://{bucket}/{key}", client=_client(os.environ.get("STORAGE_EMULATOR_HOST")))


@functools.cache
def _client(emulator: str | None) -> GSClient:
    """Return the client of an endpoint, which the library reads from the environment."""
    if emulator and not emulator.startswith(("http://", "https://")):
        raise StorageError(
            f"STORAGE_EMULATOR_HOST={emulator} is not an address: it must be http://host:port"
        )
    # Objects need no project, and a pod may have none.
    client = google_storage.Client(project=None)
    # The library leaves the body of an error response unread, which closes the connection.
    client._http.hooks["response"].append(_read_error_body)
    # Nothing is ever cached, so this folder is never created.
    cache = os.path.join(tempfile.gettempdir(), "qfleet-no-cache")
    return GSClient(storage_client=client, local_cache_dir=cache)


def _read_error_body(response: requests.Response, *_: object, **__: object) -> None:
    if response.status_code >= 400:
        response.content  # noqa: B018 (a property that reads)


def _retry() -> Retry:
    return DEFAULT_RETRY.with_timeout(base.RETRY_SECONDS).with_delay(0.1, 8.0, 2.0)


def _timeouts() -> tuple[float, float]:
    """Return the limits for connecting and for a response, in seconds."""
    limit = base.RETRY_SECONDS
    return min(CONNECT_TIMEOUT_SECONDS, limit), min(RESPONSE_TIMEOUT_SECONDS, limit)


def _request_options() -> dict[str, Any]:
    """Return retries and timeouts of a request. Uploads are safe to repeat: same bytes each."""
    return {"retry": _retry(), "timeout": _timeouts()}


def _bucket(path: GSPath) -> google_storage.Bucket:
    return path.client.client.bucket(path.bucket)


def _blob(path: GSPath) -> google_storage.Blob:
    return _bucket(path).blob(path.blob)


def _prefix(path: GSPath) -> str:
    """Return the common start of the names of all objects below a path."""
    return f"{path.blob.rstrip('/')}/" if path.blob.rstrip("/") else ""


def _objects_below(path: GSPath) -> Iterator[GSPath]:
    prefix = _prefix(path)
    for blob in _bucket(path).list_blobs(prefix=prefix, **_request_options()):
        yield path / blob.name.removeprefix(prefix)


def _upload(path: GSPath, data: bytes, **conditions: int) -> None:
    options = {**conditions, **_request_options()}
    _blob(path).upload_from_string(data, "application/octet-stream", **options)


def _require_bucket(path: GSPath) -> None:
    """List the bucket: a missing object and a missing bucket are both 404.

    Raises:
        google.api_core.exceptions.NotFound: The bucket does not exist.
    """
    list(_bucket(path).list_blobs(max_results=1, **_request_options()))


def _download(path: GSPath) -> bytes:
    """Download an object in one request, and verify its checksum as the library does.

    This uses urllib3 directly: the layers above take two thirds of the processor time of reading
    an object, which slows training when it reads many shards.
    """
    client = path.client.client
    name = quote(path.blob, safe="")
    url = f"{client.api_endpoint}/download/storage/v1/b/{path.bucket}/o/{name}?alt=media"
    connect, read = _timeouts()
    try:
        response = _connections(client).request(
            "GET", url, retries=False, timeout=urllib3.Timeout(connect=connect, read=read)
        )
    except (urllib3.exceptions.HTTPError, google.auth.exceptions.TransportError) as error:
        raise requests.ConnectionError(error) from error  # which is retried
    if response.status >= 400:
        raise api.from_http_status(response.status, f"GET {url}: {response.data[:160]!r}")
    for entry in response.headers.get("X-Goog-Hash", "").split(","):
        kind, _, expected = entry.strip().partition("=")
        if kind == "crc32c":
            checksum = google_crc32c.value(response.data).to_bytes(4, "big")
            if base64.b64encode(checksum).decode() != expected:
                raise requests.ConnectionError(f"{path} was corrupted on the way")
    return response.data


@functools.cache
def _connections(client: google_storage.Client) -> AuthorizedHttp:
    """Return persistent connections with the client's credentials, proxy and certificates."""
    environment = client._http.merge_environment_settings(
        client.api_endpoint, proxies={}, stream=None, verify=None, cert=None
    )
    certificates = environment["verify"]
    if certificates is True:
        certificates = requests.certs.where()
    tls = {"ca_cert_dir" if os.path.isdir(certificates) else "ca_certs": certificates}
    if proxy := requests.utils.select_proxy(client.api_endpoint, environment["proxies"]):
        proxy = requests.utils.prepend_scheme_if_needed(proxy, "http")
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=MAX_OPEN_CONNECTIONS)
        return AuthorizedHttp(client._credentials, adapter.proxy_manager_for(proxy, **tls))
    pool = urllib3.PoolManager(maxsize=MAX_OPEN_CONNECTIONS, **tls)
    return AuthorizedHttp(client._credentials, pool)


def translate_error(error: BaseException, path: object) -> QfleetError | None:
    """Return an error of Google's libraries as a QfleetError; None for any other exception."""
    if isinstance(error, api.NotFound):
        bucket = "/".join(str(path).split("/")[:3])
        return StorageError(f"bucket {bucket} does not exist: create it or change STORAGE")
    if _status(error) in (401, 403):
        return StorageError(
            f"access to {path} is denied ({_reason(error)}): grant this account"
            " roles/storage.objectUser on the bucket or change STORAGE"
        )
    if isinstance(error, _CREDENTIALS) and not getattr(error, "retryable", False):
        return StorageError(
            f"no usable Google Cloud credentials for {path} ({_reason(error)}): run"
            " `gcloud auth application-default login` or set GOOGLE_APPLICATION_CREDENTIALS"
        )
    if isinstance(error, _UNAVAILABLE + _CREDENTIALS) or _status(error) in (408, 429):
        return StorageUnavailable(
            f"storage does not respond for {path} ({_reason(error)}), after"
            f" {base.RETRY_SECONDS:g} s of retries: run the same command again to resume"
        )
    if isinstance(error, api.GoogleAPIError | InvalidResponse | requests.RequestException):
        return StorageError(f"storage refuses {path}: {_reason(error)}; change STORAGE")
    return None


def _status(error: BaseException) -> int | None:
    return getattr(error, "code", None) or getattr(
        getattr(error, "response", None), "status_code", None
    )


def _reason(error: BaseException) -> str:
    """Return the innermost cause in a few words."""
    if isinstance(error, api.RetryError) and error.cause is not None:
        return _reason(error.cause)
    if isinstance(error, api.GoogleAPICallError):
        return f"{_status(error)} {type(error).__name__}"
    if isinstance(error, requests.ConnectionError | requests.Timeout):
        return "no connection" if isinstance(error, requests.ConnectionError) else "no response"
    return " ".join(str(error).split())[:160] or type(error).__name__
