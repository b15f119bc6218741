"""Google Cloud Storage behind common/storage.py, which alone imports this, for gs:// paths only.

cloudpathlib gives the paths; requests go to google-cloud-storage itself, since cloudpathlib reads
through a cache of files that may be stale. STORAGE_EMULATOR_HOST (http://host:port) names an
emulator, which is asked without credentials.
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
    # It tells everyone on Python 3.11 when it will stop to support it.
    warnings.simplefilter("ignore", FutureWarning)
    import google.auth.exceptions
    from cloudpathlib import GSClient, GSPath
    from google.api_core import exceptions as api
    from google.api_core.retry import Retry
    from google.auth.transport.urllib3 import AuthorizedHttp
    from google.cloud import storage as gcs
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
    from google.cloud.storage.retry import DEFAULT_RETRY

from common import storage
from common.errors import QfleetError, StorageError, StorageUnavailable

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
_OPEN = 16  # connections that stay open to read by

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


def path(bucket: str, key: str) -> GSPath:
    """The path gs://bucket/key, on a client shared by all paths of this process."""
    return GSPath(f"gs://{bucket}/{key}", client=_client(os.environ.get("STORAGE_EMULATOR_HOST")))


@functools.cache
def _client(emulator: str | None) -> GSClient:
    """One client per endpoint; the library itself reads the endpoint from the environment."""
    if emulator and not emulator.startswith(("http://", "https://")):
        raise StorageError(
            f"STORAGE_EMULATOR_HOST={emulator} is not an address: it must be http://host:port"
        )
    client = gcs.Client(project=None)  # none is needed for objects, and a pod may have none
    # The library leaves a refusal's body unread, which costs the connection: read it.
    client._http.hooks["response"].append(_read_refusal)
    # Nothing is ever put into the cache's folder, and so it is never made.
    cache = os.path.join(tempfile.gettempdir(), "qfleet-no-cache")
    return GSClient(storage_client=client, local_cache_dir=cache)


def _read_refusal(answer: requests.Response, *_: object, **__: object) -> None:
    if answer.status_code >= 400:
        answer.content  # noqa: B018 (a property that reads)


def _patience() -> dict[str, Any]:
    """Every call is tried again, uploads too: each of ours writes the same bytes when repeated."""
    limit = storage.RETRY_SECONDS
    retry: Retry = DEFAULT_RETRY.with_timeout(limit).with_delay(0.1, 8.0, 2.0)
    return {
        "retry": retry,
        "timeout": (min(CONNECT_SECONDS, limit), min(ANSWER_SECONDS, limit)),
    }


def _bucket(path: GSPath) -> gcs.Bucket:
    return path.client.client.bucket(path.bucket)


def _blob(path: GSPath) -> gcs.Blob:
    return _bucket(path).blob(path.blob)


def _require_bucket(path: GSPath) -> None:
    """A missing object and a missing bucket are both 404; listing tells them apart.

    Raises:
        google.api_core.exceptions.NotFound: There is no such bucket.
    """
    list(_bucket(path).list_blobs(max_results=1, **_patience()))


def read(path: GSPath) -> bytes:
    """The object's bytes, asked for anew each time."""
    try:
        return _patience()["retry"](_download)(path)
    except api.NotFound:
        _require_bucket(path)
        raise FileNotFoundError(f"there is no {path}") from None


def _download(path: GSPath) -> bytes:
    """One request for the object's bytes, checked as the library checks them.

    By urllib3 itself: what lies above it takes two thirds of the processor time of reading an
    object, which many shards would take from training.
    """
    client = path.client.client
    name = quote(path.blob, safe="")
    url = f"{client.api_endpoint}/download/storage/v1/b/{path.bucket}/o/{name}?alt=media"
    connect, answer = _patience()["timeout"]
    try:
        said = _connections(client).request(
            "GET", url, retries=False, timeout=urllib3.Timeout(connect=connect, read=answer)
        )
    except (urllib3.exceptions.HTTPError, google.auth.exceptions.TransportError) as error:
        raise requests.ConnectionError(error) from error  # which is tried again
    if said.status >= 400:
        raise api.from_http_status(said.status, f"GET {url}: {said.data[:160]!r}")
    for mark in said.headers.get("X-Goog-Hash", "").split(","):
        kind, _, sum_said = mark.strip().partition("=")
        if kind == "crc32c":
            sum_read = google_crc32c.value(said.data).to_bytes(4, "big")
            if base64.b64encode(sum_read).decode() != sum_said:
                raise requests.ConnectionError(f"{path} did not arrive as it was sent")
    return said.data


@functools.cache
def _connections(client: gcs.Client) -> AuthorizedHttp:
    """Connections that stay open: with the client's credentials, proxy and authorities."""
    environment = client._http.merge_environment_settings(
        client.api_endpoint, proxies={}, stream=None, verify=None, cert=None
    )
    trusted = environment["verify"]
    if trusted is True:
        trusted = requests.certs.where()
    how = {"ca_cert_dir" if os.path.isdir(trusted) else "ca_certs": trusted}
    if proxy := requests.utils.select_proxy(client.api_endpoint, environment["proxies"]):
        proxy = requests.utils.prepend_scheme_if_needed(proxy, "http")
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=_OPEN)
        return AuthorizedHttp(client._credentials, adapter.proxy_manager_for(proxy, **how))
    return AuthorizedHttp(client._credentials, urllib3.PoolManager(maxsize=_OPEN, **how))


def write(path: GSPath, data: bytes | Path) -> None:
    """Upload; an object appears when its upload is complete, so this is whole or not at all."""
    if isinstance(data, Path):
        _blob(path).upload_from_filename(str(data), **_patience())
    else:
        _blob(path).upload_from_string(data, "application/octet-stream", **_patience())


def create_exclusive(path: GSPath, data: bytes) -> bool:
    """Upload unless the object exists; whether ours is there now."""
    try:
        _blob(path).upload_from_string(
            data, "application/octet-stream", if_generation_match=0, **_patience()
        )
    except api.PreconditionFailed:
        # Either somebody was faster, or a retry met what its own first try had written.
        return read(path) == data
    return True


def is_file(path: GSPath) -> bool:
    """Whether there is an object of this name (and a bucket of its own)."""
    return bool(path.blob) and _blob(path).exists(**_patience())


def exists(path: GSPath) -> bool:
    """Whether there is an object of this name, or one below it."""
    if is_file(path):
        return True
    prefix = f"{path.blob.rstrip('/')}/" if path.blob.rstrip("/") else ""
    below = list(_bucket(path).list_blobs(prefix=prefix, max_results=1, **_patience()))
    return bool(below) or not prefix


def files(path: GSPath, *, deep: bool) -> Iterator[GSPath]:
    """The objects below the path; without `deep` its direct children, folders among them."""
    prefix = f"{path.blob.rstrip('/')}/" if path.blob.rstrip("/") else ""
    if deep:
        for blob in _bucket(path).list_blobs(prefix=prefix, **_patience()):
            yield path / blob.name.removeprefix(prefix)
        return
    found = _bucket(path).list_blobs(prefix=prefix, delimiter="/", **_patience())
    names = [blob.name for blob in found]  # read to the end first: it is what fills the prefixes
    for name in [*names, *found.prefixes]:
        if child := name.removeprefix(prefix).rstrip("/"):
            yield path / child


def sizes(path: GSPath) -> dict[str, int]:
    """Names and bytes of the objects directly below the path."""
    prefix = f"{path.blob.rstrip('/')}/"
    found = _bucket(path).list_blobs(prefix=prefix, delimiter="/", **_patience())
    return {blob.name.removeprefix(prefix): int(blob.size) for blob in found}


def delete(path: GSPath) -> None:
    """Delete the object and all below it, whatever of them is there."""
    for each in [path, *files(path, deep=True)]:
        if each.blob:
            try:
                _blob(each).delete(**_patience())
            except api.NotFound:
                continue  # gone already, or deleted by a first try whose answer was lost


def translate_errors(error: BaseException, path: object) -> QfleetError | None:
    """The error of Google's libraries as one of ours; None if it is none of theirs."""
    where = str(path)
    if isinstance(error, api.NotFound):
        bucket = "/".join(where.split("/")[:3])
        return StorageError(f"bucket {bucket} does not exist: create it or change STORAGE")
    if _status(error) in (401, 403):
        return StorageError(
            f"permission to {where} is denied ({_reason(error)}): grant this account"
            " roles/storage.objectUser on the bucket or change STORAGE"
        )
    if isinstance(error, _CREDENTIALS) and not getattr(error, "retryable", False):
        return StorageError(
            f"there are no usable Google Cloud credentials for {where} ({_reason(error)}): run"
            " `gcloud auth application-default login` or set GOOGLE_APPLICATION_CREDENTIALS"
        )
    if isinstance(error, _UNAVAILABLE + _CREDENTIALS) or _status(error) in (408, 429):
        return StorageUnavailable(
            f"storage does not answer for {where} ({_reason(error)}), after"
            f" {storage.RETRY_SECONDS:g} s of retries: the same command goes on once it is back"
        )
    if isinstance(error, api.GoogleAPIError | InvalidResponse | requests.RequestException):
        return StorageError(f"storage refuses {where}: {_reason(error)}; change STORAGE")
    return None


def _status(error: BaseException) -> int | None:
    return getattr(error, "code", None) or getattr(
        getattr(error, "response", None), "status_code", None
    )


def _reason(error: BaseException) -> str:
    """The innermost cause in a few words."""
    if isinstance(error, api.RetryError) and error.cause is not None:
        return _reason(error.cause)
    if isinstance(error, api.GoogleAPICallError):
        return f"{_status(error)} {type(error).__name__}"
    if isinstance(error, requests.ConnectionError | requests.Timeout):
        return "no connection" if isinstance(error, requests.ConnectionError) else "no answer"
    return " ".join(str(error).split())[:160] or type(error).__name__
