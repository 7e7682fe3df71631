import { type Static, Type } from "typebox";
import { offsetQuery, resourcePage } from "../page.ts";
import { literals, nullable, optional, timestamp, uuid } from "../schema.ts";
import { control, nameLike, ofWorkspaceQuery } from "./organization.ts";

export const MemberRole = literals(["reader", "deployer", "admin"]);
export type MemberRole = Static<typeof MemberRole>;

/** Membership of a person in one workspace or in a whole organization. A person can have several. */
export const Member = Type.Object(
  {
    id: uuid(),
    organization_id: uuid(),
    workspace_id: nullable(uuid(), "null: every workspace of the organization."),
    email: Type.String({ description: "Email address in lower case.", examples: ["ada@example.org"] }),
    name: nullable(Type.String({ examples: ["Ada"] })),
    role: MemberRole,
    created_at: timestamp(),
    updated_at: timestamp(),
  },
  { $id: "Member" },
);
export type Member = Static<typeof Member>;

export const MemberPage = resourcePage(Member, "MemberPage");
export const MemberPath = Type.Object({ member_id: uuid("The member.") });

export const ListMembersQuery = Type.Object({
  ...offsetQuery,
  ...ofWorkspaceQuery,
  email: Type.Optional(Type.String({ description: "Exact email address, case-insensitive." })),
});

/** RFC 5321 limits an address to 254 characters. Only signing in with it proves that it exists. */
const email = Type.String({
  minLength: 3,
  maxLength: 254,
  pattern: `^[^\\s@${control}]+@[^\\s@${control}]+$`,
  examples: ["ada@example.org"],
});
const name = nameLike("Ada");

export const CreateMember = Type.Object(
  {
    email,
    name: optional(name),
    role: MemberRole,
    organization_id: optional(uuid(), "For a member of a whole organization. Not together with workspace_id."),
    workspace_id: optional(uuid(), "Default: the workspace of the calling key, or `X-Tenant-Id`."),
  },
  { $id: "CreateMember" },
);
export type CreateMember = Static<typeof CreateMember>;

export const PatchMember = Type.Object({ name: optional(name), role: optional(MemberRole) }, { $id: "PatchMember" });
export type PatchMember = Static<typeof PatchMember>;
