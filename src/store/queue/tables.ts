import { bigint, integer, jsonb, nullable, table, text, timestamp, uuid } from "../engine/table.ts";

export const reconcileQueueTable = table("reconcile_queue", {
  deployment_id: uuid,
  run_at: nullable(timestamp),
  generation: bigint,
  attempts: integer,
  lease_owner: nullable(text),
  lease_until: nullable(timestamp),
  outcomes: jsonb,
});

export const leasesTable = table("leases", {
  name: text,
  owner: text,
  lease_until: timestamp,
});
