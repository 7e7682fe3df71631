import type { EventType } from "../../contract/logs/event.ts";
import { bigint, jsonbOf, nullable, table, textOf, timestamp, uuid } from "../engine/table.ts";

export const eventsTable = table("events", {
  id: bigint,
  tenant_id: uuid,
  deployment_id: nullable(uuid),
  revision_id: nullable(uuid),
  kind: textOf<EventType>(),
  data: jsonbOf<Record<string, unknown>>(),
  created_at: timestamp,
});
