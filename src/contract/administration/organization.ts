import { type Static, Type } from "typebox";
import { offsetQuery, resourcePage } from "../page.ts";
import { given, literals, nullable, timestamp, uuid } from "../schema.ts";

/** What an organization has booked: whether it may bring listeners of its own, where the mode leaves that to the plan. */
export const Plan = literals(["cloud", "self_hosted_enterprise"]);
export type Plan = Static<typeof Plan>;

/** How far a key reaches: one workspace, all of its organization, or the whole installation (an operator's key). */
export const KeyScope = literals(["workspace", "organization", "installation"]);
export type KeyScope = Static<typeof KeyScope>;

const control = "\\x00-\\x1f\\x7f-\\x9f";

/** A name that people gave: one line, without control characters and outer blanks. */
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
  { name: organizationName, plan: given(Plan, "Default: what the mode of this installation gives.") },
  { $id: "CreateOrganization" },
);
export type CreateOrganization = Static<typeof CreateOrganization>;

export const PatchOrganization = Type.Object(
  { name: given(organizationName), plan: given(Plan, "Operators only.") },
  { $id: "PatchOrganization" },
);
export type PatchOrganization = Static<typeof PatchOrganization>;

/** A tenant. */
export const Workspace = Type.Object(
  {
    id: uuid("What `X-Tenant-Id` names."),
    organization_id: uuid(),
    name: nameLike("Search team", "Unique in the organization."),
    deployments_enabled: Type.Boolean({
      description: "false: an operator has switched the deployments API off here; what runs goes on running.",
    }),
    created_at: timestamp(),
  },
  { $id: "Workspace", description: "Owns deployments; nothing of one is seen from another." },
);
export type Workspace = Static<typeof Workspace>;

export const WorkspacePage = resourcePage(Workspace, "WorkspacePage");
export const WorkspacePath = Type.Object({ workspace_id: uuid("The workspace.") });

const organizationFilter = Type.Optional(
  uuid("Only of this organization; others than the key's own are for operators."),
);

export const OfOrganizationQuery = Type.Object({ ...offsetQuery, organization_id: organizationFilter });

/** Query pieces of lists of things that belong to an organization or to a workspace. */
export const ofWorkspaceQuery = {
  organization_id: organizationFilter,
  workspace_id: Type.Optional(uuid("Only of this workspace.")),
};

export const CreateWorkspace = Type.Object(
  { name: workspaceName, organization_id: given(uuid(), "Default: the key's own.") },
  { $id: "CreateWorkspace" },
);
export type CreateWorkspace = Static<typeof CreateWorkspace>;

export const PatchWorkspace = Type.Object(
  { name: given(workspaceName), deployments_enabled: given(Type.Boolean(), "Operators only.") },
  { $id: "PatchWorkspace" },
);
export type PatchWorkspace = Static<typeof PatchWorkspace>;

/** A quota of a workspace and how much of it is used. */
const quota = (description: string) =>
  Type.Object({ limit: nullable(Type.Integer(), "null: unlimited."), used: Type.Number() }, { description });

export const Quotas = Type.Object(
  {
    workspace_id: uuid(),
    deployments: quota("Deployments that are not being deleted."),
    replicas: quota("Greatest number of replicas (`max_scale`) of all those deployments together."),
    build_minutes: quota("Time that builds took in `month`, those that run included."),
    month: Type.String({
      description: "Calendar month (UTC) that build minutes are counted in.",
      examples: ["2026-12"],
    }),
  },
  { $id: "Quotas" },
);
export type Quotas = Static<typeof Quotas>;

const limit = (what: string) =>
  given(Type.Integer({ minimum: 0, maximum: 1_000_000_000 }), `${what}; null: unlimited.`);

/** Here null and absent differ: null lifts a limit, an absent field leaves it as it is. */
export const PatchQuotas = Type.Object(
  { deployments: limit("Deployments"), replicas: limit("Replicas"), build_minutes: limit("Minutes a month") },
  { $id: "PatchQuotas" },
);
export type PatchQuotas = Static<typeof PatchQuotas>;
