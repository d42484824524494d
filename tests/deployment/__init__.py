"""mcp_sync where it is deployed: application servers, task queues, notebooks, proxies and load balancers."""
