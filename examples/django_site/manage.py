"""The usual ``manage.py``, for a site whose MCP server runs elsewhere: ``MCP_URL=... python manage.py check``."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
