"""The assistants of a deployment."""

from aegra_api.core.orm import Assistant
from fastapi import HTTPException
from sqlalchemy import select


def resolve_conflict(_original):
    """Aegra treats assistants with the same graph and configuration as one. Here the id alone identifies an assistant."""

    async def resolve(self, assistant_id, _graph_id, _config, if_exists):
        from aegra_api.services.assistant_service import to_pydantic

        found = select(Assistant).where(Assistant.assistant_id == assistant_id, Assistant.user_id == self.user.identity)
        existing = await self.session.scalar(found)
        if existing is None or if_exists != "do_nothing":
            raise HTTPException(409, f"Assistant '{assistant_id}' already exists")
        return to_pydantic(existing)

    return resolve
