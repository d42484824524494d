"""The page on which a user answers what a server asks."""

from __future__ import annotations

import logging
from typing import Any, Optional
from urllib.parse import urlencode

from django.contrib.auth.views import redirect_to_login
from django.db import DatabaseError, transaction
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views import View
from django.views.decorators.cache import never_cache

from ... import types
from ...elicitation import cancel, decline
from ...errors import (
    AuthorizationRequired,
    CallTimeout,
    EnvelopeRejected,
    InsufficientScope,
    MCPError,
    UsageError,
)
from . import pending
from .authorization import path_of
from .forms import QuestionForm
from .middleware import NO_DATABASE, answer_to
from .models import PendingInput

logger = logging.getLogger("mcp_sync.django")

_REFUSALS = {"decline": decline, "cancel": cancel}


@method_decorator([never_cache, transaction.non_atomic_requests], name="dispatch")
class PendingInputView(View):
    """Shows the form (GET), and goes on with the call (POST: ``action`` is accept, decline or cancel).

    Attributes:
        row: The call.
    """

    row: PendingInput

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Find the call; whose it is not, does not see that there is one."""
        try:
            return self.found(pending.find(kwargs["pk"], request.user), *args, **kwargs)
        except DatabaseError:
            logger.exception("The database of the paused calls failed")
            context = {"problem": NO_DATABASE}
            return render(request, "mcp_sync/input_problem.html", context, status=503)

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
            return self.page("input_problem", 502, problem=self.row.message)
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
            return self.page("input_problem", 410, problem="This question is too old to be answered.")
        if not pending.can_answer(self.row):
            return self.page("input_problem", 409, problem="Your answer is on its way. Please reload soon.")
        return None

    def asked(self, posted: Any) -> HttpResponse:
        """Show the forms; with what was posted, go on if it will do."""
        try:
            requests = pending.questions(self.row).requests
        except EnvelopeRejected:
            logger.exception("A paused call cannot be read")
            return self.page("input_problem", 410, problem="This question cannot be read any more.")
        if not all(isinstance(each, types.ElicitRequest) for each in requests.values()):
            return self.page("input_problem", 501, problem="The server asks for what no person can answer.")
        action = posted.get("action") if posted is not None else None
        if action in _REFUSALS:
            return self.resumed({key: _REFUSALS[action]() for key in requests}, requests, None)
        data = posted if action == "accept" else None
        forms = {
            key: QuestionForm(each, data, prefix=f"q{number}")
            for number, (key, each) in enumerate(requests.items())
        }
        if data is None:
            return self.page("input", 200 if posted is None else 400, forms=list(forms.values()))
        # Each of them, so that all that is wrong is shown at once.
        good = [form.is_valid() and not form.page_problem for form in forms.values()]
        if not all(good):
            return self.page("input", 422, forms=list(forms.values()), is_wrong=True)
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
            return self.page("input_problem", 409, problem=str(error))
        except MCPError as error:
            logger.warning("The call %s could not go on: %s", self.row.pk, error)
            status = 504 if isinstance(error, CallTimeout) else 502
            text = "The server cannot be reached; your answer was not sent."
            return self.page("input_problem", status, problem=text, again=True)
        return HttpResponseRedirect(path_of("input", self.row.pk))

    def go_on(self) -> str:
        """Return where the user goes on, with the name of the call for `answered`; empty for nowhere."""
        place = self.row.return_to
        hosts, secure = {self.request.get_host()}, self.request.is_secure()
        if not url_has_allowed_host_and_scheme(place, allowed_hosts=hosts, require_https=secure):
            return ""
        joint = "&" if "?" in place else "?"
        return f"{place}{joint}{urlencode({pending.PARAMETER: self.row.pk})}"

    def page(self, template: str, status: int = 200, **context: Any) -> HttpResponse:
        """Return a page."""
        context = {"row": self.row, "alias": self.row.alias, "tool": self.row.method, **context}
        return render(self.request, f"mcp_sync/{template}.html", context, status=status)
