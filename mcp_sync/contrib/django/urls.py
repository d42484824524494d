"""``path("mcp/", include("mcp_sync.contrib.django.urls"))``."""

from __future__ import annotations

from django.urls import path

from .input_views import PendingInputView
from .views import CallbackView, ClientMetadataView, ConnectView, DisconnectView

app_name = "mcp_sync"

urlpatterns = [
    path("connect/<str:alias>/", ConnectView.as_view(), name="connect"),
    path("callback/<str:alias>/", CallbackView.as_view(), name="callback"),
    path("disconnect/<str:alias>/", DisconnectView.as_view(), name="disconnect"),
    path("input/<uuid:pk>/", PendingInputView.as_view(), name="input"),
    path("client-metadata.json", ClientMetadataView.as_view(), name="metadata"),
]
