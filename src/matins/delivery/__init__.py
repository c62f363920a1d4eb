"""Events leave Matins: webhooks, hooks, functions, pipelines, notices and pings."""
