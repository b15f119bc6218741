"""Prefetching of shards by background threads."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from common.data.shard_schedule import ShardTask


class Prefetcher:
    """Fetches the next shards of a schedule.

    Args:
        tasks: Shards in the order in which they are needed, without end.
        fetch: Returns the content of a shard.
        threads: Shards to fetch at a time.
    """

    def __init__(
        self, tasks: Iterator[ShardTask], fetch: Callable[[ShardTask], bytes], threads: int
    ) -> None:
        self._tasks, self._fetch, self._threads = tasks, fetch, threads
        self._pending: deque[tuple[ShardTask, Future[bytes]]] = deque()
        self._executor = ThreadPoolExecutor(threads, "shard")
        self.refill()

    @property
    def next_task(self) -> ShardTask:
        """The shard that `take` returns next."""
        return self._pending[0][0]

    @property
    def is_ready(self) -> bool:
        """True if `take` returns without waiting."""
        return self._pending[0][1].done()

    def take(self) -> bytes:
        """Wait for the next shard and return its content. Call `refill` once it is released.

        Raises:
            DataError, StorageUnavailable: As `fetch`.
        """
        content = self._pending[0][1].result()
        self._pending.popleft()
        return content

    def refill(self) -> None:
        """Start to fetch further shards, as many as there are threads."""
        while len(self._pending) < self._threads:
            task = next(self._tasks)
            self._pending.append((task, self._executor.submit(self._fetch, task)))

    def close(self) -> None:
        """Stop, without waiting for shards that are being fetched."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._pending.clear()
