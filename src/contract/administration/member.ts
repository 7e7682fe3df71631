import { type Static, Type } from "typebox";
import { offsetQuery, resourcePage } from "../page.ts";
import { given, literals, nullable, timestamp, uuid } from "../schema.ts";
import { nameLike, ofWorkspaceQuery } from "./organization.ts";

export const MemberRole = literals(["reader", "deployer", "admin"]);
export type MemberRole = Static<typeof MemberRole>;

/** A person in one workspace, or in all of an organization. Whoever is in several has a row in each. */
export const Member = Type.Object(
  {
    id: uuid(),
    organization_id: uuid(),
    workspace_id: nullable(uuid(), "null: every workspace of the organization."),
    email: Type.String({ description: "In lower case.", examples: ["ada@example.org"] }),
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
  email: Type.Optional(Type.String({ description: "Exact, in any case." })),
});

/** RFC 5321 bounds an address at 254 characters. Whether it exists is found out by whoever signs in with it. */
const email = Type.String({
  minLength: 3,
  maxLength: 254,
  pattern: "^[^\\s@]+@[^\\s@]+$",
  examples: ["ada@example.org"],
});
const name = nameLike("Ada");

export const CreateMember = Type.Object(
  {
    email,
    name: given(name),
    role: MemberRole,
    organization_id: given(uuid(), "For a member of all of an organization; not together with workspace_id."),
    workspace_id: given(uuid(), "Default: the key's own workspace, or `X-Tenant-Id`."),
  },
  { $id: "CreateMember" },
);
export type CreateMember = Static<typeof CreateMember>;

export const PatchMember = Type.Object({ name: given(name), role: given(MemberRole) }, { $id: "PatchMember" });
export type PatchMember = Static<typeof PatchMember>;
