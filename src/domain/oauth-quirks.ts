import type { OAuthProviderType } from "../contract/oauth/oauth-provider.ts";

/** How tokens of a provider are revoked. `rfc7009` is the standard; the others are proprietary. */
export type Revocation = { kind: "rfc7009" | "github" | "bearer"; url: string };

/** A provider's deviations from the standard. A standard provider has none. */
export interface OAuthQuirks {
  /** Parameter of the authorization URL that carries the scopes. */
  scopeParameter: "scope" | "user_scope";
  /** Separator between scopes in the authorization URL. */
  scopeSeparator: " " | ",";
  /** Scopes that are always requested and never listed among the granted ones. */
  silentScopes: readonly string[];
  /** Granted scopes that include or are aliases of others. */
  includedScopes: Readonly<Record<string, readonly string[]>>;
  /** The part of the token response that contains the user's token. */
  userTokenIn: string | null;
  /** The token endpoint reads JSON instead of a form. */
  readsJson: boolean;
  /** Assumed lifetime of a token if the response does not contain it. null: unlimited. */
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

/** Without `offline_access` there is no refresh token. */
const microsoft: OAuthQuirks = { ...standard, silentScopes: ["offline_access"] };

/** An administrator can limit sessions to 15 minutes, and the response does not contain the lifetime. */
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

/** Providers that users also add manually, without a type. */
const byTokenHost: Readonly<Record<string, OAuthQuirks>> = {
  "github.com": github,
  "oauth2.googleapis.com": google,
  "api.linear.app": linear,
  "api.notion.com": notion,
  "slack.com": slack,
  "login.microsoftonline.com": microsoft,
  "login.salesforce.com": salesforce,
};

/** Returns the deviations of a provider: by its type, otherwise by the host of its token endpoint; most have none. */
export function oauthQuirksOf(provider: { provider_type: OAuthProviderType | null; token_url: string }): OAuthQuirks {
  if (provider.provider_type !== null) return byType[provider.provider_type];
  const host = URL.canParse(provider.token_url) ? new URL(provider.token_url).hostname : "";
  return own(byTokenHost, host) ?? standard;
}

/** This scope requests a refresh token, not access. Many servers omit it from the granted scopes. */
const aboutRefreshing = "offline_access";

/** Returns whether the granted scopes cover all requested ones. */
export function coversScopes(granted: readonly string[], asked: readonly string[], quirks: OAuthQuirks): boolean {
  const covered = new Set([...granted, ...quirks.silentScopes, aboutRefreshing]);
  // Iterating over a set includes items added meanwhile, so transitive inclusions count too.
  for (const scope of covered) for (const included of own(quirks.includedScopes, scope) ?? []) covered.add(included);
  return asked.every((scope) => covered.has(scope));
}

/** Hosts and scopes come from outside, and one may be called `constructor`. */
const own = <T>(table: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;
