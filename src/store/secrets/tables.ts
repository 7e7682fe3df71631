import { bytea, nullable, table, text, timestamp, uuid } from "../engine/table.ts";

export const dataKeysTable = table("data_keys", {
  id: uuid,
  wrapped: bytea,
  master_key_id: text,
  created_at: timestamp,
  retired_at: nullable(timestamp),
});

export const secretSetsTable = table("secret_sets", {
  id: uuid,
  tenant_id: uuid,
  deployment_id: uuid,
  data_key_id: uuid,
  sealed: bytea,
  created_at: timestamp,
});
