"""``manage.py mcp_rotate``: encrypt everything with the first key, so that old keys can go."""

from __future__ import annotations

from typing import Any

from mcp_sync.contrib.django import crypto, models, stores

from ._base import ServerCommand

_COLUMNS: dict[Any, tuple[str, ...]] = {
    models.Grant: ("data",),
    models.ClientRegistration: ("data",),
    models.PendingFlow: ("data",),
    models.ServerMetadata: ("data",),
    models.PendingInput: ("envelope", "result"),
    models.TaskRecord: ("handle", "result"),
}


class Command(ServerCommand):
    """See the module."""

    help = "Encrypt everything with the first of the keys."

    def run(self, **options: Any) -> None:
        """Do it, row by row; what changes meanwhile is left alone, as the first key encrypts it anyway."""
        stores.settle_all()
        done = lost = 0
        for model, columns in _COLUMNS.items():
            for column in columns:
                rows = model.objects.exclude(**{column: ""}).values_list("pk", column)
                for pk, old in rows.iterator():
                    new = crypto.sealer().reseal(old)
                    if new is None:
                        lost += 1
                    else:
                        done += model.objects.filter(pk=pk, **{column: old}).update(**{column: new})
        self.stdout.write(f"encrypted anew: {done}; readable with none of the keys: {lost}")
