import type { CommandSpec } from "../command.ts";

const provider = ["<provider>", "its chosen name"] as const;
const yes = ["-y, --yes", "do not ask"] as const;
const user = ["--user <user>", "one of your users, as your agents name them; default: the key itself"] as const;
const onlyProvider = ["--provider <provider>", "only of this one"] as const;
const settings = [
  ["--name <text>", "what people call it"],
  ["--client-id <id>", "what the provider calls your application"],
  ["--auth-url <url>", "where people sign in and consent"],
  ["--token-url <url>", "where codes become tokens"],
  ["--issuer <url>", "who signs its answers, if it says so (RFC 9207)"],
  ["--revocation-url <url>", "where tokens are revoked (RFC 7009)"],
  ["--pkce", "it knows PKCE; presets know that themselves"],
  ["--redirect-uris <uris>", "addresses of yours that may receive codes, separated by commas"],
] as const;

const providers: CommandSpec = {
  name: "providers",
  summary: "OAuth providers of the organization",
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
      summary: "Add a provider; the client secret is typed, or comes on stdin",
      args: [["<provider>", "a name of your choice; that of a preset brings its settings"]],
      options: [
        ["--preset <id>", "settings of this preset, under another name"],
        ["--mcp <url>", "an MCP server: all else is read there, and this server registers itself"],
        ["--public", "a client without a secret"],
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
      summary: "Show a provider and the redirect URI to register there",
      args: [provider],
      json: "OAuthProvider",
      load: async () => (await import("./providers.ts")).providersShow,
    },
    {
      name: "update",
      summary: "Change a provider",
      args: [provider],
      options: [["--secret", "another client secret: typed, or on stdin"], ...settings],
      examples: ["pierhead auth providers update github --secret < secret.txt"],
      json: "OAuthProvider",
      load: async () => (await import("./providers.ts")).providersUpdate,
    },
    {
      name: "delete",
      summary: "Delete a provider and everybody's tokens of it, which are revoked",
      args: [provider],
      options: [yes],
      json: '{"provider_id": string, "deleted": boolean}',
      load: async () => (await import("./providers.ts")).providersDelete,
    },
  ],
};

const tokens: CommandSpec = {
  name: "tokens",
  summary: "Tokens that are kept for users; never the tokens themselves",
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
      args: [["<token>", "id, or unique beginning of one"]],
      options: [user, yes],
      examples: ["pierhead auth tokens delete 5f0c --user alice"],
      json: '{"token_id": string, "deleted": boolean}',
      load: async () => (await import("./tokens.ts")).tokensDelete,
    },
    {
      name: "history",
      summary: "Show what happened to the tokens of a user, newest first",
      options: [user, onlyProvider, ["-n, --lines <count>", "at most so many, 200 at the utmost", "20"]],
      json: '{"events": [TokenEvent]}',
      load: async () => (await import("./tokens.ts")).tokensHistory,
    },
  ],
};

/** `pierhead auth ...`: changing providers needs a key with the role admin, all else one with the role agent. */
export const authCommand: CommandSpec = {
  name: "auth",
  summary: "Let users connect their accounts, so that agents can act for them",
  commands: [
    {
      name: "connect",
      summary: "Have a user sign in at a provider and consent, and wait until that is done",
      args: [provider, ["[scopes...]", "what the token must allow"]],
      options: [
        user,
        ["--agent <agent>", "for this agent alone; agents that run on LangGraph send their assistant id"],
        ["--again", "also when there is a token that serves"],
        ["--no-browser", "do not open the address here"],
        ["--no-wait", "print the address and do not wait; exit code 8"],
        ["--timeout <time>", "how long to wait, as 90s, 10m", "10m"],
      ],
      examples: ["pierhead auth connect github repo --user alice", "pierhead auth connect weather --no-wait"],
      json: '{"status": "completed" | "pending", "provider_id": string, "user_id": string | null, "auth_id": string | null, "url": string | null, "token_id": string | null, "account": string | null, "scopes": [string], "expires_at": string | null}',
      load: async () => (await import("./connect.ts")).connect,
    },
    providers,
    tokens,
  ],
};
