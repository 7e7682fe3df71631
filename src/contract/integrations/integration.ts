import { type Static, Type } from "typebox";
import { nameLike } from "../administration/organization.ts";
import { cursorPage, cursorQuery, offsetQuery, resourcePage } from "../page.ts";
import { literals, nullable, optional, timestamp, uuid } from "../schema.ts";

/** Kind of a code host, which decides its API and its webhooks. `git` has neither, so the server polls it. */
export const CodeHost = literals(["github", "gitlab", "gitea", "bitbucket", "git"]);
export type CodeHost = Static<typeof CodeHost>;

/** Account with the GitHub App installed, as existing clients know it (contract 2.8). */
export const GithubIntegration = Type.Object(
  {
    id: uuid("Value for source_config.integration_id."),
    installation_id: Type.Integer({ description: "Installation of the GitHub App." }),
    name: Type.String({ description: "Account in which the App is installed.", examples: ["acme"] }),
  },
  { $id: "GithubIntegration" },
);
export type GithubIntegration = Static<typeof GithubIntegration>;

export const GithubIntegrationList = Type.Array(GithubIntegration);

export const ForgeIntegration = Type.Object(
  {
    ...GithubIntegration.properties,
    repository_selection: nullable(literals(["all", "selected"])),
    settings_url: nullable(Type.String()),
  },
  { $id: "ForgeIntegration" },
);
export type ForgeIntegration = Static<typeof ForgeIntegration>;

export const GithubRepository = Type.Object(
  {
    host_integration_id: uuid(),
    id: Type.Integer(),
    name: Type.String({ examples: ["support-bot"] }),
    owner: Type.String({ examples: ["acme"] }),
    url: Type.String({
      description: "Value for source_config.repo_url.",
      examples: ["https://github.com/acme/support-bot"],
    }),
    default_branch: Type.String({ examples: ["main"] }),
  },
  { $id: "GithubRepository" },
);
export type GithubRepository = Static<typeof GithubRepository>;

export const GithubRepositoryList = Type.Array(GithubRepository);
export const GithubIntegrationPage = cursorPage(GithubIntegration, "GithubIntegrationPage");
export const ForgeIntegrationPage = cursorPage(ForgeIntegration, "ForgeIntegrationPage");
export const GithubRepositoryPage = cursorPage(GithubRepository, "GithubRepositoryPage");
export const CursorQuery = Type.Object(cursorQuery);

export const InstallationLinkRequest = Type.Object(
  {
    return_to: optional(
      Type.String({ maxLength: 2_048 }),
      "Where the page after the installation links back to: an address or a path of this server.",
    ),
  },
  { $id: "InstallationLinkRequest" },
);

export const InstallationLink = Type.Object(
  {
    install_url: Type.String({ examples: ["https://github.com/apps/pierhead/installations/new?state=Zk3v"] }),
    oauth_reuse_url: nullable(Type.String(), "For users who have already installed the App. null: not available."),
  },
  { $id: "InstallationLink" },
);

/** Installations that the user who signed in at GitHub may use (contract 3.6). */
export const PickerSession = Type.Object(
  {
    installs: Type.Array(
      Type.Object({
        installation_id: Type.Integer(),
        account_login: Type.String({ examples: ["acme"] }),
        account_type: literals(["User", "Organization"]),
        already_in_org: Type.Boolean({ description: "A workspace of the organization already uses it." }),
      }),
    ),
    return_to: nullable(Type.String(), "`return_to` of the request for the link."),
  },
  { $id: "PickerSession" },
);
export type PickerSession = Static<typeof PickerSession>;

export const PickerPath = Type.Object({
  session_id: Type.String({ minLength: 1, maxLength: 64, description: "Id from the page after the sign-in." }),
});

export const PickerSelection = Type.Object(
  {
    action: literals(["ATTACH", "INSTALL_NEW"], {
      description: "Use a listed installation, or install the App elsewhere.",
    }),
    installation_id: optional(
      Type.Integer({ maximum: Number.MAX_SAFE_INTEGER }),
      "The installation to use. Required with ATTACH.",
    ),
  },
  { $id: "PickerSelection", examples: [{ action: "ATTACH", installation_id: 41 }] },
);

export const PickerRedirect = Type.Object(
  { redirect_url: Type.String({ examples: ["https://pierhead.example.org/host/integrations"] }) },
  { $id: "PickerRedirect", description: "Address to which to send the browser next." },
);

/** Request to use an installation that was made from GitHub's own pages. */
export const AttachInstallation = Type.Object(
  {
    installation_id: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, examples: [41] }),
    workspace_id: uuid("Workspace that will use the installation."),
  },
  { $id: "AttachInstallation" },
);

const nameText = nameLike("Our GitLab");
const urlText = Type.String({ minLength: 1, maxLength: 2_048, examples: ["https://gitlab.example.org/acme"] });
const usernameText = Type.String({
  minLength: 1,
  maxLength: 256,
  pattern: "^[^\\x00-\\x1f\\x7f]*$",
  examples: ["deploy"],
});
const tokenText = Type.String({ minLength: 1, maxLength: 4_096, pattern: "^[^\\x00-\\x1f\\x7f]*$" });
const keyText = Type.String({ minLength: 1, maxLength: 32_768 });

export const Integration = Type.Object(
  {
    id: uuid("Value for source_config.integration_id."),
    host: CodeHost,
    name: nameText,
    url: Type.String({
      description: "The credential is used only for addresses below this one.",
      examples: ["https://gitlab.example.org/acme"],
    }),
    username: nullable(usernameText),
    installation_id: nullable(
      Type.Integer(),
      "Installation of the GitHub App. null: the integration has a stored credential.",
    ),
    has_token: Type.Boolean(),
    has_ssh_key: Type.Boolean(),
    webhook_url: nullable(
      Type.String({
        examples: ["https://pierhead.example.org/v1/integrations/6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11/webhook"],
      }),
      "Where the host must send its webhooks. null for the GitHub App, which has its own address.",
    ),
    created_at: timestamp(),
    updated_at: timestamp(),
  },
  {
    $id: "Integration",
    description: "Credential or App installation with which the server reads repositories of a code host.",
  },
);
export type Integration = Static<typeof Integration>;

const webhookSecret = Type.String({
  description: "Secret for the host's webhook settings. Shown only once, stored encrypted.",
  examples: ["b1c9f0e6d2a84d7c9f3e5b7a1c2d3e4f"],
});

export const NewIntegration = Type.Object(
  { ...Integration.properties, webhook_secret: webhookSecret },
  { $id: "NewIntegration" },
);
export type NewIntegration = Static<typeof NewIntegration>;

export const IntegrationSecret = Type.Object({ webhook_secret: webhookSecret }, { $id: "IntegrationSecret" });
export const ReplaceIntegrationSecret = Type.Object(
  {
    webhook_secret: optional(
      Type.String({ minLength: 16, maxLength: 256, pattern: "^[\\x21-\\x7e]+$" }),
      "Secret that the host has generated, such as a signing token of GitLab. Default: a new random one.",
    ),
  },
  { $id: "ReplaceIntegrationSecret" },
);
export const IntegrationPage = resourcePage(Integration, "IntegrationPage");
export const ListIntegrationsQuery = Type.Object(offsetQuery);
export const IntegrationPath = Type.Object({ integration_id: uuid("Integration of your workspace.") });

const credentialFields = {
  username: optional(usernameText, "User name for the token. Default: the one that the host expects with a token."),
  token: optional(tokenText, "Password or access token that may read the repositories."),
  ssh_key: optional(keyText, "Private key in OpenSSH format, without a passphrase."),
  ssh_known_hosts: optional(keyText, "Lines of known_hosts(5) that the host must match. Required with ssh_key."),
};

export const CreateIntegration = Type.Object(
  {
    host: CodeHost,
    name: nameText,
    url: urlText,
    ...credentialFields,
  },
  {
    $id: "CreateIntegration",
    examples: [{ host: "gitlab", name: "Our GitLab", url: "https://gitlab.example.org/acme", token: "glpat-example" }],
  },
);
export type CreateIntegration = Static<typeof CreateIntegration>;

export const PatchIntegration = Type.Object(
  { name: optional(nameText), ...credentialFields },
  { $id: "PatchIntegration", examples: [{ name: "GitLab" }] },
);
export type PatchIntegration = Static<typeof PatchIntegration>;

/** Query for the agent projects of a repository. */
export const FindProjectsQuery = Type.Object({
  repo_url: Type.String({
    minLength: 1,
    maxLength: 2_048,
    description: "Repository, as in source_config.repo_url.",
    examples: ["https://github.com/acme/support-bot"],
  }),
  ref: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: "Ref, as in repo_ref. Absent: the default branch.",
      examples: ["main"],
    }),
  ),
  integration_id: Type.Optional(uuid("Integration that reads a private repository.")),
});

export const AgentProject = Type.Object(
  {
    config_path: Type.String({
      description: "Value for langgraph_config_path.",
      examples: ["agents/support/langgraph.json"],
    }),
    directory: Type.String({ description: "Directory of the project. Empty: the root.", examples: ["agents/support"] }),
    kind: literals(["langgraph", "pierhead"]),
  },
  { $id: "AgentProject" },
);
export type AgentProject = Static<typeof AgentProject>;

export const AgentProjectList = Type.Object(
  {
    ref: Type.String({ examples: ["main"] }),
    commit_sha: Type.String({ examples: ["da1560886d4f094c3e6c9ef40349f7d38b5d27d7"] }),
    projects: Type.Array(AgentProject, {
      description: "Sorted by path, those nearest to the root first. At most 200.",
    }),
  },
  { $id: "AgentProjectList" },
);
export type AgentProjectList = Static<typeof AgentProjectList>;

/** Result of a host's webhook: processed, received before, or about nothing that a deployment follows. */
export const HostMessageReceipt = Type.Object(
  { status: literals(["accepted", "repeated", "ignored"]) },
  { $id: "HostMessageReceipt" },
);
