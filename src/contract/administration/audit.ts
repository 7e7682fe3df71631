import { type Static, Type } from "typebox";
import { cursorPage, cursorQuery } from "../page.ts";
import { freeObject, mapOf, nullable, timestamp, uuid } from "../schema.ts";
import { ofWorkspaceQuery } from "./organization.ts";

const names = Type.Array(Type.String({ examples: ["OPENAI_API_KEY"] }));

/** One change, written in the transaction that made it. */
export const AuditEntry = Type.Object(
  {
    id: Type.String({ examples: ["42"] }),
    created_at: timestamp(),
    actor: Type.String({
      description: "`key:<API key id>`, `member:<member id>` for people who signed in, or `system`.",
      examples: ["key:7a1c3e5b-9d2f-4a6c-8e0b-1f3d5a7c9e2b"],
    }),
    actor_name: nullable(Type.String(), "Name of that key, or address of that member, as long as there is one."),
    action: Type.String({ description: "`<what>.<verb>`.", examples: ["deployment.patch"] }),
    organization_id: uuid(),
    workspace_id: nullable(uuid(), "null: a change of the organization itself."),
    deployment_id: nullable(uuid()),
    subject_id: nullable(uuid(), "Id of what was changed."),
    subject_name: nullable(Type.String(), "Its name at that time."),
    changes: mapOf(
      Type.Object({ before: Type.Unknown(), after: Type.Unknown() }),
      "Fields that changed, each with its value before and after.",
    ),
    secrets: nullable(
      Type.Object({ added: names, removed: names, changed: names }),
      "Names of secrets that changed, never their values.",
    ),
    details: freeObject("Other facts, such as the id of the revision that was made."),
  },
  { $id: "AuditEntry" },
);
export type AuditEntry = Static<typeof AuditEntry>;

export const AuditPage = cursorPage(AuditEntry, "AuditPage");

export const ListAuditQuery = Type.Object({
  ...cursorQuery,
  ...ofWorkspaceQuery,
  deployment_id: Type.Optional(uuid("Also of one that was deleted.")),
  actor: Type.Optional(Type.String({ description: "Exact." })),
  action: Type.Optional(Type.String({ description: "Exact, or its first word: `deployment`." })),
  since: Type.Optional(timestamp("Changes from this moment on.")),
  until: Type.Optional(timestamp("Changes before this moment.")),
});
export type ListAuditQuery = Static<typeof ListAuditQuery>;
