"""A Celery application whose broker and results are folders."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded
from kombu.transport import filesystem
from kombu.utils.json import dumps
from site_client import client

folder = Path(os.environ["CELERY_FOLDER"])
for name in ("messages", "processed", "results", "control"):
    (folder / name).mkdir(exist_ok=True)


class WholeMessages(filesystem.Channel):
    """Has a message appear when all of it is written: half of one brings the worker down that takes it."""

    def _put(self, queue: str, payload: Any, **options: Any) -> None:
        name = f"{time.monotonic_ns():020}_{uuid.uuid4()}.{queue}.msg"
        written = folder / "messages" / f"{name}.begun"
        written.write_text(dumps(payload))
        written.rename(folder / "messages" / name)


filesystem.Transport.Channel = WholeMessages
app = Celery("site_tasks", broker="filesystem://", backend=f"file://{folder}/results")
app.conf.update(
    broker_transport_options={
        "data_folder_in": str(folder / "messages"),
        "data_folder_out": str(folder / "messages"),
        "processed_folder": str(folder / "processed"),
        "control_folder": str(folder / "control"),
        "polling_interval": 0.05,
    },
    broker_connection_retry_on_startup=False,
    worker_prefetch_multiplier=1,
    task_acks_late=False,
)


@app.task
def use(tool: str, text: str) -> tuple[str, int]:
    """Call a tool; return what it said, and which process asked it."""
    return client.call_tool(tool, {"text": text}).text, os.getpid()


@app.task(soft_time_limit=1, time_limit=20)
def use_too_long() -> tuple[str, str, int]:
    """Call a tool that does not answer until the time of the task is up; then go on."""
    try:
        client.call_tool("hang", {"text": "x"})
    except SoftTimeLimitExceeded:
        return "time is up", client.call_tool("echo", {"text": "goes on"}).text, os.getpid()
    return "it answered", "", os.getpid()
