import type { CommandSpec } from "../command.ts";

const integration = ["<integration>", "name, id, or unique beginning of an id"] as const;

const app: CommandSpec = {
  name: "app",
  summary: "The server's own GitHub App; for operators",
  commands: [
    {
      name: "create",
      summary: "Make a link that creates the App at GitHub, and gives its keys to the server",
      options: [
        ["--organization <name>", "that is to own it; default: whoever opens the link"],
        ["--github-url <url>", "an Enterprise Server; default: PIERHEAD_GITHUB_URL of the server"],
        ["--name <name>", "what to call it, at most 34 characters"],
        ["--public", "other accounts may install it too"],
      ],
      examples: ["pierhead integrations app create --organization acme"],
      json: "GithubAppLink",
      load: async () => (await import("./github-app.ts")).githubAppCreate,
    },
    {
      name: "show",
      summary: "Show which App the server has",
      json: "ServerGithubApp",
      load: async () => (await import("./github-app.ts")).githubAppShow,
    },
    {
      name: "delete",
      summary: "Forget the App; it stays at GitHub",
      options: [["-y, --yes", "do not ask"]],
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
      summary: "Make a link that installs the server's GitHub App for the workspace",
      json: "InstallationLink",
      load: async () => (await import("./integrations.ts")).integrationsInstall,
    },
    {
      name: "pick",
      summary: "Let the workspace use an installation that you have signed in for at GitHub",
      args: [
        ["<session>", "from the page after the sign-in"],
        ["[installation]", "its number; absent: list them"],
      ],
      examples: ["pierhead integrations pick 3q2v 48211903"],
      json: "PickerSession, or with an installation PickerRedirect",
      load: async () => (await import("./integrations.ts")).integrationsPick,
    },
    {
      name: "attach",
      summary: "Let a workspace use an installation of the GitHub App that is there already; for operators",
      args: [["<installation>", "its number: the last part of its settings page at GitHub"]],
      options: [["--workspace <id>", "default: the workspace of the key"]],
      examples: ["pierhead integrations attach 48211903"],
      json: "GithubIntegration",
      load: async () => (await import("./integrations.ts")).integrationsAttach,
    },
    app,
    {
      name: "create",
      summary: "Store a token or SSH key for everything below an address",
      args: [["<url>", "such as https://gitlab.example.org/acme"]],
      options: [
        ["--host <host>", "github, gitlab, gitea, bitbucket or git", "git"],
        ["--name <name>", "what to call it; default: the address"],
        ["--username <name>", "for the token, where the host wants a particular one"],
        ["--token-stdin", "read the token from standard input"],
        ["--ssh-key <file>", "private key without a passphrase"],
        ["--known-hosts <file>", "lines of known_hosts that the host must match; with --ssh-key"],
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
      summary: "List the repositories that an account has given the GitHub App",
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
        ["--integration <integration>", "that reads it, when it is private"],
      ],
      examples: ["pierhead integrations projects https://github.com/acme/agents"],
      json: "AgentProjectList",
      load: async () => (await import("./integrations.ts")).integrationsProjects,
    },
    {
      name: "secret",
      summary: "Replace the secret of the host's webhook",
      args: [integration],
      options: [["--stdin", "by one that the host has made, from standard input; default: a new one"]],
      json: "IntegrationSecret",
      load: async () => (await import("./integrations.ts")).integrationsSecret,
    },
    {
      name: "delete",
      summary: "Forget an integration",
      args: [integration],
      options: [["-y, --yes", "do not ask"]],
      json: '{"integration_id": string, "deleted": boolean}',
      load: async () => (await import("./integrations.ts")).integrationsDelete,
    },
  ],
};

export const pushesCommand: CommandSpec = {
  name: "pushes",
  summary: "Show or change what a deployment does with pushes and pull requests",
  args: [["<deployment>", "name, id, or unique beginning of an id"]],
  options: [
    ["--build <on|off>", "build pushes of the followed branch"],
    ["--include <patterns>", "only pushes that change these files, separated by commas; all: any"],
    ["--exclude <patterns>", "files that do not count, separated by commas; none: all count"],
    ["--previews <on|off|label>", "a deployment for every pull request, for none, or for those with the label"],
    ["--label <label>", "that label"],
    ["--max-previews <count>", "previews at the same time"],
    ["--idle-hours <hours>", "previews are deleted after so long without a commit or request"],
  ],
  examples: [
    "pierhead pushes support",
    'pierhead pushes support --build on --include "agents/support/**,package.json"',
    "pierhead pushes support --previews label --label try-it",
  ],
  json: "GitSettings",
  load: async () => (await import("./pushes.ts")).pushes,
};
