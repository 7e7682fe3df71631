import { type Static, Type } from "typebox";
import { cursorPage, cursorQuery } from "../page.ts";
import { freeObject, mapOf, nullable, timestamp, uuid } from "../schema.ts";
import { ofWorkspaceQuery } from "./organization.ts";

const names = Type.Array(Type.String({ examples: ["OPENAI_API_KEY"] }));

/** Record of one change, written in the same transaction as the change. */
export const AuditEntry = Type.Object(
  {
    id: Type.String({ examples: ["42"] }),
    created_at: timestamp(),
    actor: Type.String({
      description: "`key:<API key id>`, `member:<member id>` for people who have signed in, or `system`.",
      examples: ["key:7a1c3e5b-9d2f-4a6c-8e0b-1f3d5a7c9e2b"],
    }),
    actor_name: nullable(Type.String(), "Name of the key, or email address of the member, if it still exists."),
    action: Type.String({ description: "`<subject>.<verb>`.", examples: ["deployment.patch"] }),
    organization_id: uuid(),
    workspace_id: nullable(uuid(), "null: the change was made to the organization itself."),
    deployment_id: nullable(uuid()),
    subject_id: nullable(uuid(), "Id of the changed object."),
    subject_name: nullable(Type.String(), "Name of the changed object at that time."),
    changes: mapOf(
      Type.Object({ before: Type.Unknown(), after: Type.Unknown() }),
      "Fields that changed, each with its value before and after.",
    ),
    secrets: nullable(
      Type.Object({ added: names, removed: names, changed: names }),
      "Names of the secrets that changed, never their values.",
    ),
    details: freeObject("Other facts, such as the id of the new revision."),
  },
  { $id: "AuditEntry" },
);
export type AuditEntry = Static<typeof AuditEntry>;

export const AuditPage = cursorPage(AuditEntry, "AuditPage");

export const ListAuditQuery = Type.Object({
  ...cursorQuery,
  ...ofWorkspaceQuery,
  deployment_id: Type.Optional(uuid("Only changes of this deployment, which may be deleted.")),
  actor: Type.Optional(Type.String({ description: "Only changes by exactly this actor." })),
  action: Type.Optional(Type.String({ description: "The exact action, or its first word, such as `deployment`." })),
  text: Type.Optional(
    Type.String({
      maxLength: 200,
      description:
        "Only changes in which each of these words occurs: in the name of the actor or of the object, the action, a changed field with its values, the name of a secret, or a detail. Upper and lower case are the same. A page may have few items or none although older ones follow: go on while there is a `next_cursor`.",
      examples: ["refund_limit"],
    }),
  ),
  since: Type.Optional(timestamp("Only changes at or after this time.")),
  until: Type.Optional(timestamp("Only changes before this time.")),
});
export type ListAuditQuery = Static<typeof ListAuditQuery>;
