"""The page on which a user answers what a server asks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Optional
from urllib.parse import urlencode

from django.contrib.auth.views import redirect_to_login
from django.db import DatabaseError
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme

from ... import types
from ...elicitation import cancel, decline
from ...errors import (
    AuthorizationRequired,
    EnvelopeRejected,
    InsufficientScope,
    MCPError,
    UsageError,
)
from . import pending
from ._connections import is_of_database
from .authorization import path_of
from .forms import QuestionForm
from .middleware import BACK, NO_DATABASE, answer_to, status_of
from .models import PendingInput
from .views import Page

logger = logging.getLogger("mcp_sync.django")

_REFUSALS = {"decline": decline, "cancel": cancel}


class PendingInputView(Page):
    """Shows the form (GET), and goes on with the call (POST: ``action`` is accept, decline or cancel).

    Attributes:
        row: The call.
    """

    row: PendingInput

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Find the call; whose it is not, does not see that there is one."""
        try:
            return self.found(pending.find(kwargs["pk"], request), *args, **kwargs)
        except DatabaseError:
            logger.exception("The database of the paused calls failed")
            return render(request, "mcp_sync/problem.html", {"problem": NO_DATABASE}, status=503)

    def found(self, row: Optional[PendingInput], *args: Any, **kwargs: Any) -> Any:
        """Go on with a call that is there, and is the user's."""
        request = self.request
        if row is None and not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if row is None:
            raise Http404("There is no such question.")
        self.row = row
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: Any, pk: Any) -> HttpResponse:
        """Show the form, or what came of the call."""
        if self.row.status == PendingInput.Status.DONE:
            return self.page("done", result=pending.result_of(self.row), go_on=self.go_on())
        if self.row.status == PendingInput.Status.FAILED:
            return self.problem(self.row.message, 502)
        wrong = self.closed()
        return wrong if wrong is not None else self.asked(None)

    def post(self, request: Any, pk: Any) -> HttpResponse:
        """Go on with the call."""
        wrong = self.closed()
        return wrong if wrong is not None else self.asked(request.POST)

    def closed(self) -> Any:
        """Return the page for a question that nobody may answer now, ``None`` if it is open."""
        if self.row.status in (PendingInput.Status.DONE, PendingInput.Status.FAILED):
            return HttpResponseRedirect(self.request.get_full_path())
        if self.row.is_over:
            return self.problem("This question is too old to be answered.", 410)
        if not pending.can_answer(self.row):
            return self.problem("Your answer is on its way. Please reload soon.", 409)
        return None

    def asked(self, posted: Any) -> HttpResponse:
        """Show the forms; with what was posted, go on if it will do."""
        try:
            requests = pending.questions(self.row).requests
        except EnvelopeRejected:
            logger.exception("A paused call cannot be read")
            return self.problem("This question cannot be read any more.", 410)
        if not all(isinstance(each, types.ElicitRequest) for each in requests.values()):
            return self.problem("The server asks for what no person can answer.", 501)
        action = posted.get("action") if posted is not None else None
        if action in _REFUSALS:
            return self.resumed({key: _REFUSALS[action]() for key in requests}, requests, None)
        data = posted if action == "accept" else None
        forms = {
            key: QuestionForm(each, data, prefix=f"q{number}")
            for number, (key, each) in enumerate(requests.items())
        }
        if data is None:
            return self.form(200 if posted is None else 400, forms)
        # Each of them, so that all that is wrong is shown at once.
        good = [form.is_valid() and not form.page_problem for form in forms.values()]
        if not all(good):
            return self.form(422, forms, is_wrong=True)
        return self.resumed({key: form.answer for key, form in forms.items()}, requests, forms)

    def resumed(self, answers: Any, requests: Any, forms: Any) -> HttpResponse:
        """Go on with the call, and show what came of it."""
        try:
            pending.go_on(self.row, answers, self.request.user)
        except (AuthorizationRequired, InsufficientScope) as error:
            answer = answer_to(self.request, error)
            if answer is None:
                raise
            return answer
        except UsageError as error:
            return self.problem(f"{str(error)[:1].upper()}{str(error)[1:]}.", 409)
        except MCPError as error:
            logger.warning("The call %s could not go on: %s", self.row.pk, error)
            text = "The server cannot be reached; your answer was not sent."
            text = NO_DATABASE if is_of_database(error) else text
            again = (path_of("input", self.row.pk), "Answer once more")
            return self.problem(text, status_of(error), again)
        return HttpResponseRedirect(path_of("input", self.row.pk))

    def go_on(self) -> str:
        """Return where the user goes on, with the name of the call for `answered`; empty for nowhere."""
        place = self.place()
        joint = "&" if "?" in place else "?"
        return f"{place}{joint}{urlencode({pending.PARAMETER: self.row.pk})}" if place else ""

    def place(self) -> str:
        """Return where the user was, empty if that is no place of this site."""
        place, hosts, secure = self.row.return_to, {self.request.get_host()}, self.request.is_secure()
        is_ours = url_has_allowed_host_and_scheme(place, allowed_hosts=hosts, require_https=secure)
        return place if is_ours else ""

    def form(self, status: int, forms: Mapping[str, QuestionForm], **context: Any) -> HttpResponse:
        """Return the page with the form."""
        only_pages = all(each.page and not each.fields for each in forms.values())
        is_repeated = self.row.status == PendingInput.Status.RESUMING
        context = {"send": "Continue" if only_pages else "Send", "is_repeated": is_repeated, **context}
        return self.page("input", status, forms=list(forms.values()), **context)

    def problem(self, text: str, status: int, *links: tuple[str, str]) -> HttpResponse:
        """Return a page that says what is wrong, and what to do about it."""
        place = self.place()
        back = [(place, BACK)] if place else []
        return self.page("problem", status, problem=text, links=[*links, *back])

    def page(self, template: str, status: int = 200, **context: Any) -> HttpResponse:
        """Return a page."""
        context = {"row": self.row, "alias": self.row.alias, "tool": self.row.method, **context}
        return render(self.request, f"mcp_sync/{template}.html", context, status=status)
