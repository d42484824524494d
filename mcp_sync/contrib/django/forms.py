"""What a server asks, as a form of Django's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS

from ... import types
from ...elicitation import FormField, PageURL, accept, check_url, form_fields, validate_answer
from ...errors import AnswerInvalid, UnsafeURL

_INPUT_TYPES = {"email": "email", "uri": "url", "date": "date", "date-time": "text"}


class QuestionForm(forms.Form):
    """The form for one question of a server.

    What was typed is held against the server's schema: ``answer`` is what goes to the server.

    Args:
        request: The `ElicitRequest`.
    """

    def __init__(self, request: types.ElicitRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request
        self.message = str(getattr(request.params, "message", ""))
        self.page: Optional[PageURL] = None
        self.page_problem = ""
        self.content: Optional[dict[str, Any]] = None
        if isinstance(request.params, types.ElicitRequestURLParams):
            self._names: dict[str, FormField] = {}
            try:
                self.page = check_url(request)
            except UnsafeURL as error:
                self.page_problem = str(error)
        else:
            # Names of fields are the server's, and may be anything.
            self._names = {f"field{number}": each for number, each in enumerate(form_fields(request))}
        self.fields.update({name: _field(each) for name, each in self._names.items()})
        for name, each in self._names.items():
            self.fields[name].is_needed = each.required and each.type != "boolean"
            self._describe(name)

    def full_clean(self) -> None:
        """Check everything, and tie what is wrong to its fields. The first of them has the focus then."""
        super().full_clean()
        wrong = [name for name in self._names if name in self._errors]
        for name in wrong:
            self._describe(name, is_wrong=True)
        if wrong:
            self.fields[wrong[0]].widget.attrs["autofocus"] = True

    def clean(self) -> dict[str, Any]:
        """Hold the answer against the schema."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if isinstance(self.request.params, types.ElicitRequestURLParams):
            return cleaned
        typed = {
            each.name: cleaned[name]
            for name, each in self._names.items()
            if name in cleaned and self._was_given(name, each)
        }
        try:
            self.content = validate_answer(self.request, typed, html=True)
        except AnswerInvalid as error:
            self._tell(error.faults)
        return cleaned

    def _describe(self, name: str, is_wrong: bool = False) -> None:
        """Tie a field to the texts about it, for those who do not see where they are."""
        field, where = self.fields[name], self[name].auto_id
        notes = [f"{where}_help"] if field.help_text else []
        if is_wrong:
            notes.append(f"{where}_error")
            field.widget.attrs["aria-invalid"] = "true"
        field.described_by = " ".join(notes)
        if notes:
            field.widget.attrs["aria-describedby"] = field.described_by

    def _was_given(self, name: str, each: FormField) -> bool:
        # A box that is not ticked, and a list without a choice, are missing from a form.
        return bool(self.cleaned_data[name]) or each.type not in ("boolean", "array")

    def _tell(self, faults: Mapping[str, str]) -> None:
        names = {each.name: name for name, each in self._names.items()}
        for name, fault in faults.items():
            self.add_error(names.get(name, NON_FIELD_ERRORS if name else None), fault)

    @property
    def answer(self) -> types.ElicitResult:
        """What a user who agrees sends."""
        return accept(self.content)


def _field(each: FormField) -> forms.Field:
    """Return a field that shows what a server asks for. It checks little: the schema does."""
    options: dict[str, Any] = {
        "label": each.title,
        "help_text": each.description,
        "required": False,
        "initial": each.default,
    }
    choices = [(str(choice.value), choice.title) for choice in each.choices]
    if each.type == "boolean":
        return forms.BooleanField(**options)
    if each.type == "array":
        return forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple, **options)
    attributes = _attributes(each)
    if choices:
        if not each.required or each.default is None:
            choices = [("", "Choose one"), *choices]
        return forms.ChoiceField(choices=choices, widget=forms.Select(attrs=attributes), **options)
    return forms.CharField(widget=_widget(each, attributes), strip=False, **options)


def _attributes(each: FormField) -> dict[str, Any]:
    bounds = {
        "min": each.minimum,
        "max": each.maximum,
        "minlength": each.min_length,
        "maxlength": each.max_length,
    }
    found = {name: f"{value:g}" for name, value in bounds.items() if value is not None}
    return {**found, "required": True} if each.required else found


def _widget(each: FormField, attributes: dict[str, Any]) -> forms.Widget:
    if each.type in ("number", "integer"):
        return forms.NumberInput(attrs={"step": "1" if each.type == "integer" else "any", **attributes})
    widget = forms.TextInput(attrs=attributes)
    widget.input_type = _INPUT_TYPES.get(each.format, "text")
    return widget
