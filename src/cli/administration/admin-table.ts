import type { CommandSpec } from "../command.ts";

const yes = ["-y, --yes", "do not ask"] as const;
const ofOrganization = ["--organization <organization>", "name or id; else the key's own"] as const;
const ofWorkspace = ["--for <workspace>", "name or id; else the one that the other commands work in"] as const;
const onlyOrganization = ["--organization <organization>", "only of this one, by name or id"] as const;
const onlyWorkspace = ["--for <workspace>", "only of this one, by name or id"] as const;
const organization = ["<organization>", "name, id, or unique beginning of an id"] as const;
const workspace = ["<workspace>", "name, id, or unique beginning of an id"] as const;
const anyWorkspace = ["[workspace]", "name or id; else the one that the other commands work in"] as const;
const plan = ["--plan <plan>", "cloud or self_hosted_enterprise"] as const;

const organizations: CommandSpec = {
  name: "organizations",
  summary: "Organizations and their plans",
  commands: [
    {
      name: "list",
      summary: "List the organizations that the key reaches",
      json: '{"organizations": [Organization]}',
      load: async () => (await import("./tenants.ts")).organizationsList,
    },
    {
      name: "create",
      summary: "Create an organization; needs an operator's key",
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
      options: [["--name <name>", "another name"], plan],
      examples: ["pierhead admin organizations update Acme --plan self_hosted_enterprise"],
      json: "Organization",
      load: async () => (await import("./tenants.ts")).organizationsUpdate,
    },
    {
      name: "delete",
      summary: "Delete an organization that has no workspaces",
      args: [organization],
      options: [yes],
      json: '{"organization_id": string, "deleted": boolean}',
      load: async () => (await import("./tenants.ts")).organizationsDelete,
    },
  ],
};

const workspaces: CommandSpec = {
  name: "workspaces",
  summary: "Workspaces of an organization",
  commands: [
    {
      name: "list",
      summary: "List the workspaces that the key reaches",
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
      summary: "Rename a workspace, or switch its deployments on or off (operators)",
      args: [workspace],
      options: [
        ["--name <name>", "another name"],
        ["--deployments <state>", "on or off; what runs goes on running"],
      ],
      examples: ["pierhead admin workspaces update search --deployments off"],
      json: "Workspace",
      load: async () => (await import("./tenants.ts")).workspacesUpdate,
    },
    {
      name: "delete",
      summary: "Delete a workspace that has no deployments, with its keys, members and tags",
      args: [workspace],
      options: [yes],
      json: '{"workspace_id": string, "deleted": boolean}',
      load: async () => (await import("./tenants.ts")).workspacesDelete,
    },
  ],
};

const keys: CommandSpec = {
  name: "keys",
  summary: "API keys",
  commands: [
    {
      name: "list",
      summary: "List the keys that the key in use reaches",
      options: [onlyWorkspace, onlyOrganization, ["--all", "also expired and revoked ones"]],
      json: '{"keys": [ApiKey]}',
      load: async () => (await import("./keys.ts")).keysList,
    },
    {
      name: "create",
      summary: "Create a key and print it, this once",
      args: [["<name>", "what it is for"]],
      options: [
        ["--role <role>", "reader, deployer, admin, agent or listener", "deployer"],
        ["--scope <scope>", "workspace, organization, or installation (an operator's); else workspace"],
        ofWorkspace,
        ofOrganization,
        ["--listener <id>", "listener that speaks with it; role listener only"],
        ["--expires <time>", "in so long (30d, 12h), or a moment (ISO 8601); else never"],
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
      args: [["<key>", "name, beginning as the list shows it, or id"]],
      options: [yes],
      examples: ["pierhead admin keys revoke ci"],
      json: '{"api_key_id": string, "revoked": boolean}',
      load: async () => (await import("./keys.ts")).keysRevoke,
    },
  ],
};

const role = ["--role <role>", "reader, deployer or admin"] as const;
const everyone = ["--organization <organization>", "a member of all workspaces of this organization"] as const;

const members: CommandSpec = {
  name: "members",
  summary: "People who may sign in",
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
      args: [["<email>", "address"]],
      options: [[...role, "reader"], ["--name <name>", "how people call them"], ofWorkspace, everyone],
      examples: ["pierhead admin members add ada@example.org --role deployer"],
      json: "Member",
      load: async () => (await import("./members.ts")).membersAdd,
    },
    {
      name: "update",
      summary: "Change a member's role or name",
      args: [["<email>", "address, or id"]],
      options: [role, ["--name <name>", "another name"], onlyWorkspace, onlyOrganization],
      json: "Member",
      load: async () => (await import("./members.ts")).membersUpdate,
    },
    {
      name: "remove",
      summary: "Remove a member",
      args: [["<email>", "address, or id"]],
      options: [onlyWorkspace, onlyOrganization, yes],
      json: '{"member_id": string, "deleted": boolean}',
      load: async () => (await import("./members.ts")).membersRemove,
    },
  ],
};

const deployment = ["<deployment>", "name, id, or unique beginning of an id"] as const;

const tags: CommandSpec = {
  name: "tags",
  summary: "Tags of the workspace, and of its deployments",
  commands: [
    {
      name: "list",
      summary: "List the tags with their values",
      json: '{"tags": [Tag]}',
      load: async () => (await import("./tags.ts")).tagsList,
    },
    {
      name: "add",
      summary: "Make a tag, or add values to one",
      args: [
        ["<tag>", "its name"],
        ["[values...]", "values it should have"],
      ],
      options: [["--description <text>", "what it is for"]],
      examples: ["pierhead admin tags add team search billing"],
      json: "Tag",
      load: async () => (await import("./tags.ts")).tagsAdd,
    },
    {
      name: "delete",
      summary: "Delete a tag, or some of its values, also from all deployments",
      args: [
        ["<tag>", "name or id"],
        ["[values...]", "only these values"],
      ],
      options: [yes],
      json: '{"tag_id": string, "tag_value_ids": [string], "deleted": boolean}',
      load: async () => (await import("./tags.ts")).tagsDelete,
    },
    {
      name: "show",
      summary: "Show the tags of a deployment",
      args: [deployment],
      json: '{"deployment_id": string, "tags": [{"name": string, "value": string}]}',
      load: async () => (await import("./tags.ts")).tagsShow,
    },
    {
      name: "set",
      summary: "Give a deployment these tags and no others",
      args: [deployment, ["[tags...]", "TAG=VALUE each; none: takes all off"]],
      examples: ["pierhead admin tags set support team=search stage=live", "pierhead list --tag team=search"],
      json: '{"deployment_id": string, "tags": [{"name": string, "value": string}]}',
      load: async () => (await import("./tags.ts")).tagsSet,
    },
  ],
};

const quotas: CommandSpec = {
  name: "quotas",
  summary: "What a workspace may use",
  commands: [
    {
      name: "show",
      summary: "Show the limits of a workspace and what it uses",
      args: [anyWorkspace],
      json: "Quotas",
      load: async () => (await import("./tenants.ts")).quotasShow,
    },
    {
      name: "set",
      summary: "Change the limits of a workspace; needs a key of the organization",
      args: [anyWorkspace],
      options: [
        ["--deployments <count>", "deployments, or none for no limit"],
        ["--replicas <count>", "replicas of all deployments together, or none"],
        ["--build-minutes <count>", "minutes of building in a calendar month (UTC), or none"],
      ],
      examples: ["pierhead admin quotas set search --deployments 20 --build-minutes none"],
      json: "Quotas",
      load: async () => (await import("./tenants.ts")).quotasSet,
    },
  ],
};

const audit: CommandSpec = {
  name: "audit",
  summary: "Show who changed what, newest first",
  options: [
    ["--deployment <deployment>", "only this one; its id when it is gone"],
    ["--actor <actor>", "only this one, as key:ID"],
    ["--action <action>", "only this one, as deployment.patch; or all of a kind: deployment"],
    ["--since <time>", "a moment (ISO 8601, UTC unless it names a zone) or a length of time ago: 10m, 2h"],
    ["--until <time>", "before that moment"],
    onlyWorkspace,
    onlyOrganization,
    ["-n, --lines <count>", "at most so many", "50"],
  ],
  examples: ["pierhead admin audit --deployment support --since 7d", "pierhead admin audit --action api_key --json"],
  json: '{"entries": [AuditEntry], "has_more": boolean}',
  load: async () => (await import("./audit.ts")).audit,
};

/** `pierhead admin ...`: all of it needs a key with the role admin, but for looking at tags. */
export const adminCommand: CommandSpec = {
  name: "admin",
  summary: "Administer organizations, workspaces, keys, members, tags, quotas, and see who changed what",
  commands: [organizations, workspaces, keys, members, tags, quotas, audit],
};
