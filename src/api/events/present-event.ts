import type { Event } from "../../contract/logs/event.ts";
import { withDeploymentName } from "../../domain/deployment-health.ts";
import type { EventRow } from "../../store/events/events.ts";

/** Returns the wire shape of an event. */
export function eventOf(row: EventRow): Event {
  const name = row.deployment_name ?? (row.data["name"] as string | undefined) ?? null;
  const { message } = row.data;
  return {
    id: String(row.id),
    type: row.kind,
    created_at: row.created_at.toISOString(),
    tenant_id: row.tenant_id,
    deployment_id: row.deployment_id,
    deployment_name: name,
    revision_id: row.revision_id,
    data:
      name !== null && typeof message === "string"
        ? { ...row.data, message: withDeploymentName(message, name) }
        : row.data,
  };
}
