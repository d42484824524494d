"""A site whose users are in another database than the default one: all that is kept stands beside them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from .server import ROOT

PROGRAM = """
import sys

import django
from django.conf import settings

folder = sys.argv[1]
databases = {
    name: {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/{name}.sqlite"}
    for name in ("default", "users")
}


class Router:
    def allow_migrate(self, db, app_label, **hints):
        return db == "users"

    def db_for_read(self, model, **hints):
        return "users" if model._meta.app_label == "auth" else None

    db_for_write = db_for_read


sys.modules["routers"] = type(sys)("routers")
sys.modules["routers"].Router = Router
settings.configure(
    SECRET_KEY="x" * 50,
    INSTALLED_APPS=[
        "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
        "mcp_sync.contrib.django",
    ],
    DATABASES=databases,
    DATABASE_ROUTERS=["routers.Router"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    MCP_SYNC={"DATABASE": "users", "SERVERS": {"kitchen": {"URL": "https://kitchen.example.com/mcp"}}},
    USE_TZ=True,
)
django.setup()

from django.core.management import call_command
from django.utils import timezone

from mcp_sync.auth import Deadline, Key
from mcp_sync.contrib.django import models, stores
from mcp_sync.contrib.django.input_views import PendingInputView
from mcp_sync.contrib.django.views import ConnectView

for name in databases:
    call_command("migrate", database=name, verbosity=0)
from django.contrib.auth import get_user_model

ada = get_user_model().objects.create_user("ada")
store = stores.ModelTokenStore("kitchen")
key = Key("grant", "https://login.example.com", "https://kitchen.example.com/mcp", f"user:{ada.pk}", "app")
with store.lock(key, Deadline(5)):
    assert store.put(key, {"access_token": "secret"}, None)
assert store.get(key).value == {"access_token": "secret"}
print(models.Grant.objects.get().user.username)

models.PendingInput.objects.create(
    alias="kitchen", user=ada, method="tools/call", envelope="x", expires=timezone.now()
)
# Of nobody, who would be in that database. There are no tables in the other one.
models.PendingInput(alias="kitchen", method="tools/call", envelope="x", expires=timezone.now()).save()
models.TaskRecord(alias="kitchen", task_id="1", handle="x", status="working").save()
call_command("mcp_prune")
print(*(sorted(view.as_view()._non_atomic_requests) for view in (ConnectView, PendingInputView)))
settings.MCP_SYNC["ENCRYPTION_KEYS"] = ["new", settings.SECRET_KEY]
call_command("mcp_rotate")
"""


def test_grants_and_questions_stand_beside_the_users(tmp_path):
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "ada",
        "deleted: 0 logins, 2 questions, 0 tasks",
        "['default', 'users'] ['default', 'users']",
        "encrypted anew: 1; readable with none of the keys: 1",
    ]
