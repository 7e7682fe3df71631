import { deploymentArgument, yesOption } from "../arguments.ts";
import type { CommandSpec } from "../command.ts";

const integration = ["<integration>", "name, id, or unique prefix of an id"] as const;

const app: CommandSpec = {
  name: "app",
  summary: "Manage the server's own GitHub App (operators)",
  commands: [
    {
      name: "create",
      summary: "Print a link that creates the App on GitHub and stores its keys in the server",
      options: [
        ["--organization <name>", "owner of the App; default: the user who opens the link"],
        ["--github-url <url>", "address of a GitHub Enterprise Server; default: PIERHEAD_GITHUB_URL of the server"],
        ["--name <name>", "name of the App, at most 34 characters"],
        ["--public", "let other accounts install it"],
      ],
      examples: ["pierhead integrations app create --organization acme"],
      json: "GithubAppLink",
      load: async () => (await import("./github-app.ts")).githubAppCreate,
    },
    {
      name: "show",
      summary: "Show the App of the server",
      json: "ServerGithubApp",
      load: async () => (await import("./github-app.ts")).githubAppShow,
    },
    {
      name: "delete",
      summary: "Remove the App from the server; it remains on GitHub",
      options: [yesOption],
      json: '{"deleted": true}',
      load: async () => (await import("./github-app.ts")).githubAppDelete,
    },
  ],
};

export const integrationsCommand: CommandSpec = {
  name: "integrations",
  summary: "Let the workspace read private repositories",
  commands: [
    {
      name: "list",
      summary: "List the integrations of the workspace",
      json: '{"integrations": [Integration]}',
      load: async () => (await import("./integrations.ts")).integrationsList,
    },
    {
      name: "install",
      summary: "Print a link that installs the server's GitHub App for the workspace",
      json: "InstallationLink",
      load: async () => (await import("./integrations.ts")).integrationsInstall,
    },
    {
      name: "pick",
      summary: "Choose an installation for the workspace after signing in at GitHub",
      args: [
        ["<session>", "session id from the page after the sign-in"],
        ["[installation]", "installation number; without it, the command lists them"],
      ],
      examples: ["pierhead integrations pick 3q2v 48211903"],
      json: "PickerSession | PickerRedirect",
      jsonNote: "the second with an installation",
      load: async () => (await import("./integrations.ts")).integrationsPick,
    },
    {
      name: "attach",
      summary: "Let a workspace use an existing installation of the GitHub App (operators)",
      args: [["<installation>", "installation number: the last part of the address of its settings page on GitHub"]],
      options: [["--workspace <id>", "default: the workspace of the key"]],
      examples: ["pierhead integrations attach 48211903"],
      json: "GithubIntegration",
      load: async () => (await import("./integrations.ts")).integrationsAttach,
    },
    app,
    {
      name: "create",
      summary: "Store a token or SSH key for all repositories below an address",
      args: [["<url>", "for example https://gitlab.example.org/acme"]],
      options: [
        ["--host <host>", "github, gitlab, gitea, bitbucket or git", "git"],
        ["--name <name>", "name of the integration; default: the address"],
        ["--username <name>", "username for the token, if the host requires one"],
        ["--token-stdin", "read the token from standard input"],
        ["--ssh-key <file>", "private key without a passphrase"],
        ["--known-hosts <file>", "known_hosts file that the host must match; with --ssh-key"],
      ],
      examples: [
        "pierhead integrations create https://gitlab.example.org/acme --host gitlab --token-stdin < token",
        "pierhead integrations create ssh://git.example.org --ssh-key deploy_key --known-hosts hosts",
      ],
      json: "NewIntegration",
      load: async () => (await import("./integrations.ts")).integrationsCreate,
    },
    {
      name: "repos",
      summary: "List the repositories that the GitHub App can access for an account",
      args: [integration],
      json: '{"repositories": [GithubRepository]}',
      load: async () => (await import("./integrations.ts")).integrationsRepos,
    },
    {
      name: "projects",
      summary: "List the agent projects of a repository",
      args: [["<url>", "address of the repository"]],
      options: [
        ["--ref <ref>", "branch, refs/tags/<tag> or commit; default: the default branch"],
        ["--integration <integration>", "integration that reads it, if it is private"],
      ],
      examples: ["pierhead integrations projects https://github.com/acme/agents"],
      json: "AgentProjectList",
      load: async () => (await import("./integrations.ts")).integrationsProjects,
    },
    {
      name: "secret",
      summary: "Replace the webhook secret of an integration",
      args: [integration],
      options: [["--stdin", "read the secret from standard input; default: generate one"]],
      json: "IntegrationSecret",
      load: async () => (await import("./integrations.ts")).integrationsSecret,
    },
    {
      name: "delete",
      summary: "Delete an integration",
      args: [integration],
      options: [yesOption],
      json: '{"integration_id": string, "deleted": boolean}',
      load: async () => (await import("./integrations.ts")).integrationsDelete,
    },
  ],
};

export const pushesCommand: CommandSpec = {
  name: "pushes",
  summary: "Show or change how a deployment handles pushes and pull requests",
  args: [deploymentArgument],
  options: [
    ["--build <on|off>", "build pushes of the followed branch"],
    ["--include <patterns>", "only pushes that change these files, separated by commas; all: any file"],
    ["--exclude <patterns>", "files to ignore, separated by commas; none: ignore no files"],
    ["--previews <on|off|label>", "create a deployment for every pull request, for none, or for those with the label"],
    ["--label <label>", "label for --previews label"],
    ["--max-previews <count>", "maximum number of previews at the same time"],
    ["--idle-hours <hours>", "delete a preview after this many hours without a commit or request"],
  ],
  examples: [
    "pierhead pushes support",
    'pierhead pushes support --build on --include "agents/support/**,package.json"',
    "pierhead pushes support --previews label --label try-it",
  ],
  json: "GitSettings",
  load: async () => (await import("./pushes.ts")).pushes,
};
