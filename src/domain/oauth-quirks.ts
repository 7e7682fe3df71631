import type { OAuthProviderType } from "../contract/oauth/oauth-provider.ts";

/** How tokens of a provider are revoked. `rfc7009` is the standard; the others are what their services have instead. */
export type Revocation = { kind: "rfc7009" | "github" | "bearer"; url: string };

/** Where a provider departs from the standard. A standard one has none of these. */
export interface OAuthQuirks {
  /** Parameter of the authorization URL that carries the scopes. */
  scopeParameter: "scope" | "user_scope";
  /** Between scopes in the authorization URL. */
  scopeSeparator: " " | ",";
  /** Always asked for, and never told among the granted ones. */
  silentScopes: readonly string[];
  /** A granted scope that includes others, or is another name of them. */
  includedScopes: Readonly<Record<string, readonly string[]>>;
  /** The part of the token answer that holds the user's token. */
  userTokenIn: string | null;
  /** The token endpoint reads JSON instead of a form. */
  readsJson: boolean;
  /** How long a token lives of which the answer does not say it. null: for ever. */
  assumedLifeMs: number | null;
  revocation: Revocation | null;
}

const standard: OAuthQuirks = {
  scopeParameter: "scope",
  scopeSeparator: " ",
  silentScopes: [],
  includedScopes: {},
  userTokenIn: null,
  readsJson: false,
  assumedLifeMs: null,
  revocation: null,
};

const slack: OAuthQuirks = {
  ...standard,
  scopeParameter: "user_scope",
  scopeSeparator: ",",
  userTokenIn: "authed_user",
  revocation: { kind: "bearer", url: "https://slack.com/api/auth.revoke" },
};

/** A refresh token comes only with `offline_access`. */
const microsoft: OAuthQuirks = { ...standard, silentScopes: ["offline_access"] };

/** Sessions there can be set to end after 15 minutes, and the answer does not say when. */
const salesforce: OAuthQuirks = {
  ...standard,
  silentScopes: ["refresh_token"],
  assumedLifeMs: 15 * 60_000,
  revocation: { kind: "rfc7009", url: "https://login.salesforce.com/services/oauth2/revoke" },
};

const github: OAuthQuirks = {
  ...standard,
  includedScopes: {
    repo: ["repo:status", "repo_deployment", "public_repo", "repo:invite", "security_events"],
    user: ["read:user", "user:email", "user:follow"],
    "admin:org": ["write:org", "read:org"],
    "write:org": ["read:org"],
    "admin:repo_hook": ["write:repo_hook", "read:repo_hook"],
    "write:repo_hook": ["read:repo_hook"],
    "admin:public_key": ["write:public_key", "read:public_key"],
    "write:public_key": ["read:public_key"],
    "write:packages": ["read:packages"],
    project: ["read:project"],
  },
  revocation: { kind: "github", url: "https://api.github.com/applications" },
};

const google: OAuthQuirks = {
  ...standard,
  includedScopes: {
    "https://www.googleapis.com/auth/userinfo.email": ["email"],
    "https://www.googleapis.com/auth/userinfo.profile": ["profile"],
  },
  revocation: { kind: "rfc7009", url: "https://oauth2.googleapis.com/revoke" },
};

const linear: OAuthQuirks = {
  ...standard,
  scopeSeparator: ",",
  revocation: { kind: "rfc7009", url: "https://api.linear.app/oauth/revoke" },
};

const notion: OAuthQuirks = { ...standard, readsJson: true };

const byType: Readonly<Record<OAuthProviderType, OAuthQuirks>> = { slack, microsoft, salesforce };

/** Those that people also add by hand, without a type. */
const byTokenHost: Readonly<Record<string, OAuthQuirks>> = {
  "github.com": github,
  "oauth2.googleapis.com": google,
  "api.linear.app": linear,
  "api.notion.com": notion,
  "slack.com": slack,
  "login.microsoftonline.com": microsoft,
  "login.salesforce.com": salesforce,
};

/** What is special about a provider: by its type, else by where its token endpoint is; nothing about most. */
export function oauthQuirksOf(provider: { provider_type: OAuthProviderType | null; token_url: string }): OAuthQuirks {
  if (provider.provider_type !== null) return byType[provider.provider_type];
  const host = URL.canParse(provider.token_url) ? new URL(provider.token_url).hostname : "";
  return own(byTokenHost, host) ?? standard;
}

/** Asks for a refresh token, not for access: many servers leave it out of what they say they granted. */
const aboutRefreshing = "offline_access";

/** Do the granted scopes cover all that are asked for? */
export function coversScopes(granted: readonly string[], asked: readonly string[], quirks: OAuthQuirks): boolean {
  const covered = new Set([...granted, ...quirks.silentScopes, aboutRefreshing]);
  // A set takes what is added while it is walked, so inclusions of inclusions count too.
  for (const scope of covered) for (const included of own(quirks.includedScopes, scope) ?? []) covered.add(included);
  return asked.every((scope) => covered.has(scope));
}

/** Hosts and scopes are named by others, who may say `constructor`. */
const own = <T>(table: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;
