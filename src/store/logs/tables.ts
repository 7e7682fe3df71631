import { bigint, nullable, smallint, table, text, textOf, timestamp, uuid } from "../engine/table.ts";

export const logEntriesTable = table("log_entries", {
  id: bigint,
  tenant_id: uuid,
  deployment_id: uuid,
  revision_id: uuid,
  kind: textOf<"build" | "deploy">(),
  replica_id: nullable(text),
  stream: text,
  level: smallint,
  logged_at: timestamp,
  message: text,
  /** Unique within the deployment. A line that arrives again with its key is dropped. */
  line_key: nullable(text),
});
