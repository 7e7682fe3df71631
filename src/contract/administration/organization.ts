import { type Static, Type } from "typebox";
import { offsetQuery, resourcePage } from "../page.ts";
import { literals, nullable, optional, timestamp, uuid } from "../schema.ts";

/** Plan of an organization. In modes that leave it to the plan, it decides whether the organization may add listeners. */
export const Plan = literals(["cloud", "self_hosted_enterprise"]);
export type Plan = Static<typeof Plan>;

/** Reach of a key: one workspace, its whole organization, or the whole installation (an operator's key). */
export const KeyScope = literals(["workspace", "organization", "installation"]);
export type KeyScope = Static<typeof KeyScope>;

/** Control characters, which could end a line or move the cursor of a terminal, as the inside of a class of a pattern. */
export const control = "\\x00-\\x1f\\x7f-\\x9f";

/** Returns the schema of a user-given name: one line without control characters and without outer blanks. */
export const nameLike = (example: string, description?: string) =>
  Type.String({
    minLength: 1,
    maxLength: 128,
    pattern: `^[^\\s${control}](?:[^${control}]*[^\\s${control}])?$`,
    examples: [example],
    ...(description !== undefined && { description }),
  });

const organizationName = nameLike("Acme");
const workspaceName = nameLike("Search team");

export const Organization = Type.Object(
  { id: uuid(), name: organizationName, plan: Plan, created_at: timestamp() },
  { $id: "Organization", description: "Owns workspaces, keys and members." },
);
export type Organization = Static<typeof Organization>;

export const OrganizationPage = resourcePage(Organization, "OrganizationPage");
export const OrganizationPath = Type.Object({ organization_id: uuid("The organization.") });

export const CreateOrganization = Type.Object(
  { name: organizationName, plan: optional(Plan, "Default: set by the mode of this installation.") },
  { $id: "CreateOrganization" },
);
export type CreateOrganization = Static<typeof CreateOrganization>;

export const PatchOrganization = Type.Object(
  { name: optional(organizationName), plan: optional(Plan, "Operators only.") },
  { $id: "PatchOrganization" },
);
export type PatchOrganization = Static<typeof PatchOrganization>;

/** A tenant. */
export const Workspace = Type.Object(
  {
    id: uuid("Value of `X-Tenant-Id`."),
    organization_id: uuid(),
    name: nameLike("Search team", "Unique in the organization."),
    deployments_enabled: Type.Boolean({
      description:
        "false: an operator has disabled the deployments API of this workspace. Running deployments keep running.",
    }),
    created_at: timestamp(),
  },
  { $id: "Workspace", description: "Owns deployments, which are invisible to other workspaces." },
);
export type Workspace = Static<typeof Workspace>;

export const WorkspacePage = resourcePage(Workspace, "WorkspacePage");
export const WorkspacePath = Type.Object({ workspace_id: uuid("The workspace.") });

const organizationFilter = Type.Optional(
  uuid("Only of this organization. Only operators may name another organization than the key's own."),
);

export const OfOrganizationQuery = Type.Object({ ...offsetQuery, organization_id: organizationFilter });

/** Query fields of lists whose items belong to an organization or to a workspace. */
export const ofWorkspaceQuery = {
  organization_id: organizationFilter,
  workspace_id: Type.Optional(uuid("Only of this workspace.")),
};

export const CreateWorkspace = Type.Object(
  { name: workspaceName, organization_id: optional(uuid(), "Default: the organization of the calling key.") },
  { $id: "CreateWorkspace" },
);
export type CreateWorkspace = Static<typeof CreateWorkspace>;

export const PatchWorkspace = Type.Object(
  { name: optional(workspaceName), deployments_enabled: optional(Type.Boolean(), "Operators only.") },
  { $id: "PatchWorkspace" },
);
export type PatchWorkspace = Static<typeof PatchWorkspace>;

/** Returns the schema of a quota of a workspace and its usage. */
const quota = (description: string) =>
  Type.Object({ limit: nullable(Type.Integer(), "null: unlimited."), used: Type.Number() }, { description });

export const Quotas = Type.Object(
  {
    workspace_id: uuid(),
    deployments: quota("Deployments, without those that are being deleted."),
    replicas: quota("Sum of the maximum numbers of replicas (`max_scale`) of those deployments."),
    build_minutes: quota("Total duration of the builds in `month`, including running builds."),
    month: Type.String({
      description: "Calendar month (UTC) in which the build minutes are counted.",
      examples: ["2026-12"],
    }),
  },
  { $id: "Quotas" },
);
export type Quotas = Static<typeof Quotas>;

const limit = (what: string) =>
  optional(Type.Integer({ minimum: 0, maximum: 1_000_000_000 }), `${what}. null: unlimited.`);

/** Null and absent differ here: null removes a limit, an absent field leaves it unchanged. */
export const PatchQuotas = Type.Object(
  { deployments: limit("Deployments"), replicas: limit("Replicas"), build_minutes: limit("Build minutes a month") },
  { $id: "PatchQuotas" },
);
export type PatchQuotas = Static<typeof PatchQuotas>;
