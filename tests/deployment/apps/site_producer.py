"""Sends tasks, all at once, and prints their results: ``site_producer.py TASK ARGUMENTS...`` in JSON."""

from __future__ import annotations

import json
import sys

import site_tasks

task = getattr(site_tasks, sys.argv[1])
sent = [task.delay(*arguments) for arguments in json.loads(sys.argv[2])]
print(json.dumps([result.get(timeout=40, interval=0.05) for result in sent]))
