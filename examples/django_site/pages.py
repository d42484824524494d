"""The pages of the site."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import include, path
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from mcp_sync import MCPError
from mcp_sync.contrib.django import mcp, mcp_login_required
from mcp_sync.contrib.django.decorators import is_connected


@login_required
def home(request: HttpRequest) -> HttpResponse:
    """Show what can be done."""
    return render(request, "home.html", {"connected": is_connected("desk", request.user)})


@login_required
@mcp_login_required("desk")
def tools(request: HttpRequest) -> HttpResponse:
    """List the tools, and ask who the server thinks this is."""
    desk = mcp["desk"].for_user(request.user)
    who = desk.call_tool("whoami").text
    return render(request, "tools.html", {"tools": list(desk.tools()), "who": who})


@require_POST
@login_required
@mcp_login_required("desk")
def report(request: HttpRequest) -> StreamingHttpResponse:
    """Make a report, and show how far it is while it is made."""
    return StreamingHttpResponse(report_lines(mcp["desk"].for_user(request.user)))


def report_lines(desk: Any) -> Iterator[str]:
    """Give the page piece by piece, one for each word of progress."""
    head, _, tail = render_to_string("report.html").partition("<!-- here -->")
    yield head
    try:
        with desk.stream_tool("report") as stream:
            for step in stream:
                far = f"{step.progress:g} of {step.total or 0:g}"
                yield format_html("<li>{}: {}</li>\n", far, step.message or "")
            yield format_html("</ul><p><strong>{}</strong></p>", stream.result().text)
    except MCPError as error:
        yield format_html('</ul><p role="alert">It did not work: {}</p>', str(error))
    yield tail


@require_POST
@login_required
@mcp_login_required("desk")
def book(request: HttpRequest) -> HttpResponse:
    """Book a trip. The server asks which: then the middleware sends the user to a form."""
    result = mcp["desk"].for_user(request.user).call_tool("book", on_input="raise")
    return render(request, "booked.html", {"text": result.text})


urlpatterns = [
    path("", home, name="home"),
    path("tools/", tools, name="tools"),
    path("report/", report, name="report"),
    path("book/", book, name="book"),
    path("login/", LoginView.as_view(template_name="login.html"), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("mcp/", include("mcp_sync.contrib.django.urls")),
]
