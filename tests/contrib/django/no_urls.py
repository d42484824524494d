"""A site without the pages of mcp_sync."""

urlpatterns: list = []
