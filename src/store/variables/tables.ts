import { bytea, integer, jsonbOf, nullable, table, text, timestamp, uuid } from "../engine/table.ts";

export const variableGroupsTable = table("variable_groups", {
  id: uuid,
  tenant_id: uuid,
  name: text,
  version: integer,
  data_key_id: uuid,
  sealed: bytea,
  created_at: timestamp,
  updated_at: timestamp,
});

export const deploymentVariableGroupsTable = table("deployment_variable_groups", {
  deployment_id: uuid,
  group_id: uuid,
  position: integer,
});

/** A group as a revision got it. */
export interface PinnedGroup {
  id: string;
  name: string;
  version: number;
}

export const revisionVariablesTable = table("revision_variables", {
  revision_id: uuid,
  own_secret_set_id: nullable(uuid),
  groups: jsonbOf<PinnedGroup[]>(),
});
