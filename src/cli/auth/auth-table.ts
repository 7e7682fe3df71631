import { yesOption } from "../arguments.ts";
import type { CommandSpec } from "../command.ts";

const provider = ["<provider>", "id of the provider"] as const;
const user = ["--user <user>", "one of your users, by the id that your agents use; default: the key itself"] as const;
const onlyProvider = ["--provider <provider>", "only this provider"] as const;
const settings = [
  ["--name <text>", "display name"],
  ["--client-id <id>", "client id of your application at the provider"],
  ["--auth-url <url>", "authorization endpoint, where users sign in and consent"],
  ["--token-url <url>", "token endpoint, which exchanges codes for tokens"],
  ["--issuer <url>", "issuer in authorization responses, if the provider sends one (RFC 9207)"],
  ["--revocation-url <url>", "revocation endpoint (RFC 7009)"],
  ["--pkce", "use PKCE although the preset does not; every other provider gets it anyway"],
  ["--redirect-uris <uris>", "your own addresses that may receive codes, separated by commas"],
] as const;

const providers: CommandSpec = {
  name: "providers",
  summary: "Manage the OAuth providers of the organization",
  commands: [
    {
      name: "list",
      summary: "List the providers",
      json: '{"providers": [OAuthProvider]}',
      load: async () => (await import("./providers.ts")).providersList,
    },
    {
      name: "presets",
      summary: "List the providers that are known beforehand, and where to register at each",
      json: '{"presets": [OAuthPreset]}',
      load: async () => (await import("./providers.ts")).providersPresets,
    },
    {
      name: "add",
      summary: "Add a provider; the client secret comes from a prompt or from stdin",
      args: [["<provider>", "an id of your choice; the id of a preset applies its settings"]],
      options: [
        ["--preset <id>", "use the settings of this preset under another id"],
        ["--mcp <url>", "an MCP server; its settings are discovered and the client is registered automatically"],
        ["--public", "public client, without a secret"],
        ...settings,
      ],
      examples: [
        "pierhead auth providers add github --client-id Iv1.8a61f9b3a7aba766",
        "pierhead auth providers add weather --mcp https://mcp.example.com/mcp",
        "pierhead auth providers add id --client-id c --auth-url https://id.example.com/auth --token-url https://id.example.com/token < secret.txt",
      ],
      json: "OAuthProvider",
      load: async () => (await import("./providers.ts")).providersAdd,
    },
    {
      name: "show",
      summary: "Show a provider and the redirect URI to register with it",
      args: [provider],
      json: "OAuthProvider",
      load: async () => (await import("./providers.ts")).providersShow,
    },
    {
      name: "update",
      summary: "Change a provider",
      args: [provider],
      options: [["--secret", "set a new client secret, from a prompt or from stdin"], ...settings],
      examples: ["pierhead auth providers update github --secret < secret.txt"],
      json: "OAuthProvider",
      load: async () => (await import("./providers.ts")).providersUpdate,
    },
    {
      name: "delete",
      summary: "Delete a provider, and revoke and delete all of its tokens",
      args: [provider],
      options: [yesOption],
      json: '{"provider_id": string, "deleted": boolean}',
      load: async () => (await import("./providers.ts")).providersDelete,
    },
  ],
};

const tokens: CommandSpec = {
  name: "tokens",
  summary: "Manage the stored tokens of users; token values are never shown",
  commands: [
    {
      name: "list",
      summary: "List the tokens of a user",
      options: [user, onlyProvider],
      examples: ["pierhead auth tokens list --user alice"],
      json: '{"tokens": [OAuthToken]}',
      load: async () => (await import("./tokens.ts")).tokensList,
    },
    {
      name: "delete",
      summary: "Revoke a token at its provider and delete it",
      args: [["<token>", "id, or unique prefix of an id"]],
      options: [user, yesOption],
      examples: ["pierhead auth tokens delete 5f0c --user alice"],
      json: '{"token_id": string, "deleted": boolean}',
      load: async () => (await import("./tokens.ts")).tokensDelete,
    },
    {
      name: "history",
      summary: "Show the token history of a user, newest events first",
      options: [user, onlyProvider, ["-n, --lines <count>", "maximum number of events, up to 200", "20"]],
      json: '{"events": [TokenEvent]}',
      load: async () => (await import("./tokens.ts")).tokensHistory,
    },
  ],
};

/** `pierhead auth ...`. Changing providers needs a key with the role admin; the other commands need the role agent. */
export const authCommand: CommandSpec = {
  name: "auth",
  summary: "Let users connect their accounts, so that agents can act for them",
  commands: [
    {
      name: "connect",
      summary: "Let a user sign in at a provider and consent, and wait for the result",
      args: [provider, ["[scopes...]", "scopes that the token must have"]],
      options: [
        user,
        ["--agent <agent>", "only for this agent; agents on LangGraph send their assistant id"],
        ["--again", "sign in again even if there is a usable token"],
        ["--no-browser", "do not open the address in a browser"],
        ["--no-wait", "print the address and return without waiting, with exit code 8"],
        ["--timeout <time>", "how long to wait: 90s, 10m", "10m"],
      ],
      examples: ["pierhead auth connect github repo --user alice", "pierhead auth connect weather --no-wait"],
      json: '{"status": "completed" | "pending", "provider_id": string, "user_id": string | null, "auth_id": string | null, "url": string | null, "token_id": string | null, "account": string | null, "scopes": [string], "expires_at": string | null}',
      load: async () => (await import("./connect.ts")).connect,
    },
    providers,
    tokens,
  ],
};
