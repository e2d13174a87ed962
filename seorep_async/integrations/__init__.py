"""Sources for engines that have an interface of their own for them: dlt (`seorep_async.integrations.dlt`)."""

__all__: list[str] = []
