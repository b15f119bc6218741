"""Google Cloud Storage as a storage backend; imported for gs:// paths only.

cloudpathlib provides the paths. Requests use google-cloud-storage directly, since cloudpathlib
reads through a file cache that may be stale. STORAGE_EMULATOR_HOST (http://host:port) is the
address of an emulator, which is used without credentials.
"""

import base64
import functools
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
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
from common.storage.base import EMULATOR, VersionConflict, Versioned

log = logging.getLogger("qfleet")

CONNECT_TIMEOUT_SECONDS = 5.0
RESPONSE_TIMEOUT_SECONDS = 30.0
MAX_OPEN_CONNECTIONS = 16

RETRY_LOG_INTERVAL_SECONDS = 15.0
"""Interval of log lines while one request is retried."""

_MAX_ERROR_BYTES = 1 << 16
"""Most bytes that are read of the response to a failed request."""

_ABSENT = "0"
"""Generation of an object that does not exist."""

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

    def read(self, path: GSPath, max_bytes: int | None = None) -> bytes:
        try:
            return _retry()(_download)(path, max_bytes)
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

    def read_versioned(self, path: GSPath, retry_seconds: float | None) -> Versioned:
        try:
            return _retry(retry_seconds)(_download_versioned)(path, retry_seconds)
        except api.NotFound:
            _require_bucket(path, retry_seconds)
            return Versioned(None, _ABSENT)

    def write_if(self, path: GSPath, data: bytes, version: str, retry_seconds: float | None) -> str:
        blob = _blob(path)
        options = _request_options(retry_seconds)
        try:
            blob.upload_from_string(
                data, "application/octet-stream", if_generation_match=int(version), **options
            )
        except api.PreconditionFailed:
            found = self.read_versioned(path, retry_seconds)
            if found.data == data:  # a retry found what its first try had written
                return found.version
            raise VersionConflict(f"{path} has another generation than {version}") from None
        return str(blob.generation)

    def delete_if(self, path: GSPath, version: str, retry_seconds: float | None) -> None:
        options = _request_options(retry_seconds)
        try:
            _blob(path).delete(if_generation_match=int(version), **options)
        except api.PreconditionFailed:
            raise VersionConflict(f"{path} has another generation than {version}") from None
        except api.NotFound:
            return  # or deleted by a first try whose response was lost

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
        return [path / child for child in children if _is_plain(child)]

    def files(self, path: GSPath) -> list[GSPath]:
        names = (name.removeprefix(_prefix(path)) for name in _names_below(path))
        return [path / name for name in names if _is_plain(name)]

    def sizes(self, path: GSPath) -> dict[str, int]:
        prefix = f"{path.blob.rstrip('/')}/"
        found = _bucket(path).list_blobs(prefix=prefix, delimiter="/", **_request_options())
        return {blob.name.removeprefix(prefix): int(blob.size) for blob in found}

    def delete(self, path: GSPath) -> None:
        bucket = _bucket(path)
        for name in [path.blob, *_names_below(path)]:
            if name:
                try:
                    bucket.blob(name).delete(**_request_options())
                except api.NotFound:
                    continue  # or deleted by a first try whose response was lost


BACKEND = GoogleCloudStorage()


def path(bucket: str, key: str) -> GSPath:
    """Return the path gs://bucket/key, on a client that all paths of this process share."""
    return GSPath(f"gs://{bucket}/{key}", client=_client(os.environ.get(EMULATOR)))


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


def _retry(seconds: float | None = None) -> Retry:
    """Return the retries of one request, for RETRY_SECONDS by default."""
    limit = base.RETRY_SECONDS if seconds is None else seconds
    return Retry(
        predicate=DEFAULT_RETRY._predicate,
        initial=0.1,
        maximum=4.0,
        multiplier=2.0,
        timeout=limit,
        on_error=_retry_logger(limit) if seconds is None else None,
    )


def _retry_logger(limit: float) -> Callable[[Exception], None]:
    """Return a function that logs the errors of one request, the first after some time."""
    started = time.monotonic()
    next_log = RETRY_LOG_INTERVAL_SECONDS

    def log_error(error: Exception) -> None:
        nonlocal next_log
        seconds = time.monotonic() - started
        if seconds >= next_log:
            next_log = seconds + RETRY_LOG_INTERVAL_SECONDS
            log.warning(
                f"storage does not respond ({_reason(error)}): retried for {seconds:.0f} of at"
                f" most {limit:g} s"
            )

    return log_error


def _timeouts(seconds: float | None = None) -> tuple[float, float]:
    """Return the limits for connecting and for a response, in seconds."""
    limit = base.RETRY_SECONDS if seconds is None else seconds
    return min(CONNECT_TIMEOUT_SECONDS, limit), min(RESPONSE_TIMEOUT_SECONDS, limit)


def _request_options(seconds: float | None = None) -> dict[str, Any]:
    """Return retries and timeouts of a request. Uploads are safe to repeat: same bytes each."""
    return {"retry": _retry(seconds), "timeout": _timeouts(seconds)}


def _bucket(path: GSPath) -> google_storage.Bucket:
    return path.client.client.bucket(path.bucket)


def _blob(path: GSPath) -> google_storage.Blob:
    return _bucket(path).blob(path.blob)


def _prefix(path: GSPath) -> str:
    """Return the common start of the names of all objects below a path."""
    return f"{path.blob.rstrip('/')}/" if path.blob.rstrip("/") else ""


def _names_below(path: GSPath) -> Iterator[str]:
    for blob in _bucket(path).list_blobs(prefix=_prefix(path), **_request_options()):
        yield blob.name


def _is_plain(name: str) -> bool:
    """Return True if the rest of an object's name stays below the path that it is appended to.

    Names of objects may contain `..` and `//`, which paths resolve.
    """
    return {"", ".", ".."}.isdisjoint(name.split("/"))


def _upload(path: GSPath, data: bytes, **conditions: int) -> None:
    options = {**conditions, **_request_options()}
    _blob(path).upload_from_string(data, "application/octet-stream", **options)


def _require_bucket(path: GSPath, retry_seconds: float | None = None) -> None:
    """List the bucket: a missing object and a missing bucket are both 404.

    Raises:
        google.api_core.exceptions.NotFound: The bucket does not exist.
    """
    list(_bucket(path).list_blobs(max_results=1, **_request_options(retry_seconds)))


def _download_versioned(path: GSPath, retry_seconds: float | None) -> Versioned:
    """Download a small object with the generation of that content, in one request."""
    try:
        response, content = _get(path, _timeouts(retry_seconds), base.MAX_VERSIONED_BYTES)
    except base.FileTooLarge:
        raise StorageError(f"{path} is damaged: delete it once no job uses {path.parent}") from None
    generation = response.headers.get("X-Goog-Generation", "")
    if not generation.isdecimal():
        raise StorageError(
            f"the server of {path} reports no generations of objects, which exclude two jobs from"
            " one run: use Google Cloud Storage, or an emulator with generations"
        )
    return Versioned(content, generation)


def _download(path: GSPath, max_bytes: int | None = None) -> bytes:
    """Download an object in one request, and verify its checksum as the library does.

    This uses urllib3 directly: the layers above take two thirds of the processor time of reading
    an object, which slows training when it reads many shards.
    """
    response, content = _get(path, _timeouts(), max_bytes)
    for entry in response.headers.get("X-Goog-Hash", "").split(","):
        kind, _, expected = entry.strip().partition("=")
        if kind == "crc32c":
            checksum = google_crc32c.value(content).to_bytes(4, "big")
            if base64.b64encode(checksum).decode() != expected:
                raise requests.ConnectionError(f"{path} was corrupted on the way")
    return content


def _get(
    path: GSPath, timeouts: tuple[float, float], max_bytes: int | None = None
) -> tuple[urllib3.BaseHTTPResponse, bytes]:
    """Return the response, which has been read, and its content.

    Raises:
        FileTooLarge: The content has more than `max_bytes`. The rest of it is not read.
    """
    client = path.client.client
    name = quote(path.blob, safe="")
    url = f"{client.api_endpoint}/download/storage/v1/b/{path.bucket}/o/{name}?alt=media"
    connect, read = timeouts
    try:
        response = _connections(client).request(
            "GET", url, retries=False, timeout=urllib3.Timeout(connect=connect, read=read),
            # A response that is read here is closed as well where the credentials are refused.
            preload_content=max_bytes is None,
        )  # fmt: skip
        # Read here, where errors of the connection are converted. The server may state no length.
        if max_bytes is None:
            content = response.data
        else:
            failed = response.status >= 400
            limit = max(max_bytes, _MAX_ERROR_BYTES) if failed else max_bytes
            stated = int(response.headers.get("Content-Length", 0))
            content = b"" if stated > limit else response.read(limit + 1)
            if max(stated, len(content)) > limit:
                response.close()  # the connection ends: the rest is not read
                if not failed:
                    raise base.FileTooLarge(max_bytes)
    except (urllib3.exceptions.HTTPError, google.auth.exceptions.TransportError) as error:
        raise requests.ConnectionError(error) from error  # which is retried
    if response.status >= 400:
        raise api.from_http_status(response.status, f"GET {url}: {content[:160]!r}")
    return response, content


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
