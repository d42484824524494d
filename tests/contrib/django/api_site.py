"""The site of the tests, with an API made with Django REST framework."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.urls import path
from rest_framework.exceptions import PermissionDenied
from rest_framework.response import Response
from rest_framework.views import APIView

from mcp_sync.contrib.django import answered, mcp

from . import site


class Ask(APIView):
    """Calls a tool of a server, and says what it said."""

    def get(self, request: Any, alias: str, tool: str) -> Response:
        """See the class."""
        User.objects.filter(pk=request.user.pk).update(first_name="asked")
        if tool == "forbidden":
            raise PermissionDenied
        view, seconds = mcp[alias].for_user(request.user), 0.5 if tool == "slow" else 10
        result = answered(request) or view.call_tool(tool, timeout=seconds, on_input="raise")
        return Response({"text": result.text})


urlpatterns = [path("api/<str:alias>/<str:tool>/", Ask.as_view()), *site.urlpatterns]
