import { deploymentArgument, yesOption } from "../arguments.ts";
import type { CommandSpec } from "../command.ts";

const ofOrganization = ["--organization <organization>", "name or id; default: that of the key"] as const;
const ofWorkspace = ["--for <workspace>", "name or id; default: the workspace that the other commands use"] as const;
const onlyOrganization = ["--organization <organization>", "only this organization, by name or id"] as const;
const onlyWorkspace = ["--for <workspace>", "only this workspace, by name or id"] as const;
const organization = ["<organization>", "name, id, or unique prefix of an id"] as const;
const workspace = ["<workspace>", "name, id, or unique prefix of an id"] as const;
const anyWorkspace = ["[workspace]", "name or id; default: the workspace that the other commands use"] as const;
const plan = ["--plan <plan>", "cloud or self_hosted_enterprise"] as const;

const organizations: CommandSpec = {
  name: "organizations",
  summary: "Manage organizations and their plans",
  commands: [
    {
      name: "list",
      summary: "List the organizations that the key can access",
      json: '{"organizations": [Organization]}',
      load: async () => (await import("./tenants.ts")).organizationsList,
    },
    {
      name: "create",
      summary: "Create an organization (operators)",
      args: [["<name>", "its name"]],
      options: [plan],
      examples: ['pierhead admin organizations create "Acme"'],
      json: "Organization",
      load: async () => (await import("./tenants.ts")).organizationsCreate,
    },
    {
      name: "update",
      summary: "Rename an organization, or change its plan (operators)",
      args: [organization],
      options: [["--name <name>", "new name"], plan],
      examples: ["pierhead admin organizations update Acme --plan self_hosted_enterprise"],
      json: "Organization",
      load: async () => (await import("./tenants.ts")).organizationsUpdate,
    },
    {
      name: "delete",
      summary: "Delete an organization that has no workspaces",
      args: [organization],
      options: [yesOption],
      json: '{"organization_id": string, "deleted": boolean}',
      load: async () => (await import("./tenants.ts")).organizationsDelete,
    },
  ],
};

const workspaces: CommandSpec = {
  name: "workspaces",
  summary: "Manage the workspaces of an organization",
  commands: [
    {
      name: "list",
      summary: "List the workspaces that the key can access",
      options: [onlyOrganization],
      json: '{"workspaces": [Workspace]}',
      load: async () => (await import("./tenants.ts")).workspacesList,
    },
    {
      name: "create",
      summary: "Create a workspace",
      args: [["<name>", "unique in the organization"]],
      options: [ofOrganization],
      examples: ["pierhead admin workspaces create search"],
      json: "Workspace",
      load: async () => (await import("./tenants.ts")).workspacesCreate,
    },
    {
      name: "update",
      summary: "Rename a workspace, or turn its deployments on or off (operators)",
      args: [workspace],
      options: [
        ["--name <name>", "new name"],
        ["--deployments <state>", "on or off; running deployments keep running"],
      ],
      examples: ["pierhead admin workspaces update search --deployments off"],
      json: "Workspace",
      load: async () => (await import("./tenants.ts")).workspacesUpdate,
    },
    {
      name: "delete",
      summary: "Delete a workspace that has no deployments, with its keys, members and tags",
      args: [workspace],
      options: [yesOption],
      json: '{"workspace_id": string, "deleted": boolean}',
      load: async () => (await import("./tenants.ts")).workspacesDelete,
    },
  ],
};

const keys: CommandSpec = {
  name: "keys",
  summary: "Manage API keys",
  commands: [
    {
      name: "list",
      summary: "List the keys that the current key can access",
      options: [onlyWorkspace, onlyOrganization, ["--all", "include expired and revoked keys"]],
      json: '{"keys": [ApiKey]}',
      load: async () => (await import("./keys.ts")).keysList,
    },
    {
      name: "create",
      summary: "Create a key and print it; it cannot be shown again",
      args: [["<name>", "purpose"]],
      options: [
        ["--role <role>", "reader, deployer, admin, caller, agent or listener", "deployer"],
        ["--scope <scope>", "workspace, organization, or installation (operators); default: workspace"],
        ofWorkspace,
        ofOrganization,
        ["--listener <id>", "listener that uses the key; only with the role listener"],
        ["--expires <time>", "lifetime (30d, 12h) or timestamp (ISO 8601); default: never"],
      ],
      examples: [
        "pierhead admin keys create ci --role deployer --expires 90d > key.txt",
        "pierhead admin keys create platform --role admin --scope organization",
      ],
      json: "CreatedApiKey",
      load: async () => (await import("./keys.ts")).keysCreate,
    },
    {
      name: "revoke",
      summary: "Revoke a key",
      args: [["<key>", "name, prefix as listed, or id"]],
      options: [yesOption],
      examples: ["pierhead admin keys revoke ci"],
      json: '{"api_key_id": string, "revoked": boolean}',
      load: async () => (await import("./keys.ts")).keysRevoke,
    },
  ],
};

const role = ["--role <role>", "reader, deployer or admin"] as const;
const everyone = [
  "--organization <organization>",
  "make the person a member of all workspaces of this organization",
] as const;

const members: CommandSpec = {
  name: "members",
  summary: "Manage the people who may sign in",
  commands: [
    {
      name: "list",
      summary: "List the members",
      options: [onlyWorkspace, onlyOrganization],
      json: '{"members": [Member]}',
      load: async () => (await import("./members.ts")).membersList,
    },
    {
      name: "add",
      summary: "Add a person to a workspace or an organization",
      args: [["<email>", "email address"]],
      options: [[...role, "reader"], ["--name <name>", "display name"], ofWorkspace, everyone],
      examples: ["pierhead admin members add ada@example.org --role deployer"],
      json: "Member",
      load: async () => (await import("./members.ts")).membersAdd,
    },
    {
      name: "update",
      summary: "Change a member's role or name",
      args: [["<email>", "email address or id"]],
      options: [role, ["--name <name>", "new name"], onlyWorkspace, onlyOrganization],
      json: "Member",
      load: async () => (await import("./members.ts")).membersUpdate,
    },
    {
      name: "remove",
      summary: "Remove a member",
      args: [["<email>", "email address or id"]],
      options: [onlyWorkspace, onlyOrganization, yesOption],
      json: '{"member_id": string, "deleted": boolean}',
      load: async () => (await import("./members.ts")).membersRemove,
    },
  ],
};

const tags: CommandSpec = {
  name: "tags",
  summary: "Manage the tags of the workspace and its deployments",
  commands: [
    {
      name: "list",
      summary: "List the tags with their values",
      json: '{"tags": [Tag]}',
      load: async () => (await import("./tags.ts")).tagsList,
    },
    {
      name: "add",
      summary: "Create a tag, or add values to one",
      args: [
        ["<tag>", "its name"],
        ["[values...]", "values to add"],
      ],
      options: [["--description <text>", "purpose"]],
      examples: ["pierhead admin tags add team search billing"],
      json: "Tag",
      load: async () => (await import("./tags.ts")).tagsAdd,
    },
    {
      name: "delete",
      summary: "Delete a tag, or some of its values, and remove them from all deployments",
      args: [
        ["<tag>", "name or id"],
        ["[values...]", "only these values"],
      ],
      options: [yesOption],
      json: '{"tag_id": string, "tag_value_ids": [string], "deleted": boolean}',
      load: async () => (await import("./tags.ts")).tagsDelete,
    },
    {
      name: "show",
      summary: "Show the tags of a deployment",
      args: [deploymentArgument],
      json: '{"deployment_id": string, "tags": [{"tag_id": string, "tag_value_id": string, "name": string, "value": string}]}',
      load: async () => (await import("./tags.ts")).tagsShow,
    },
    {
      name: "set",
      summary: "Replace the tags of a deployment",
      args: [deploymentArgument, ["[tags...]", "TAG=VALUE each; without any, all tags are removed"]],
      examples: ["pierhead admin tags set support team=search stage=live", "pierhead list --tag team=search"],
      json: '{"deployment_id": string, "tags": [{"tag_id": string, "tag_value_id": string, "name": string, "value": string}]}',
      load: async () => (await import("./tags.ts")).tagsSet,
    },
  ],
};

const quotas: CommandSpec = {
  name: "quotas",
  summary: "Show and change the limits of a workspace",
  commands: [
    {
      name: "show",
      summary: "Show the limits and the usage of a workspace",
      args: [anyWorkspace],
      json: "Quotas",
      load: async () => (await import("./tenants.ts")).quotasShow,
    },
    {
      name: "set",
      summary: "Change the limits of a workspace; requires a key with organization scope",
      args: [anyWorkspace],
      options: [
        ["--deployments <count>", "maximum number of deployments; none: no limit"],
        ["--replicas <count>", "maximum number of replicas of all deployments together; none: no limit"],
        ["--build-minutes <count>", "maximum build minutes per calendar month (UTC); none: no limit"],
      ],
      examples: ["pierhead admin quotas set search --deployments 20 --build-minutes none"],
      json: "Quotas",
      load: async () => (await import("./tenants.ts")).quotasSet,
    },
  ],
};

const audit: CommandSpec = {
  name: "audit",
  summary: "Show the audit log, newest entries first",
  options: [
    ["--deployment <deployment>", "only this deployment; use the id of a deleted one"],
    ["--actor <actor>", "only this actor, as key:ID"],
    ["--action <action>", "only this action, such as deployment.patch, or all of a kind, such as deployment"],
    ["--text <words>", "only entries with each of these words: names, fields, values, variables"],
    ["--since <time>", "a timestamp (ISO 8601, UTC unless it names a zone) or an age: 10m, 2h"],
    ["--until <time>", "only entries before this time"],
    onlyWorkspace,
    onlyOrganization,
    ["-n, --lines <count>", "maximum number of entries", "50"],
  ],
  examples: ["pierhead admin audit --deployment support --since 7d", "pierhead admin audit --action api_key --json"],
  json: '{"entries": [AuditEntry], "has_more": boolean}',
  load: async () => (await import("./audit.ts")).audit,
};

/** `pierhead admin ...`. Every command needs a key with the role admin, except for those that only read tags. */
export const adminCommand: CommandSpec = {
  name: "admin",
  summary: "Manage organizations, workspaces, keys, members, tags and quotas, and read the audit log",
  commands: [organizations, workspaces, keys, members, tags, quotas, audit],
};
