import { createPrivateKey, createSign, type KeyObject } from "node:crypto";
import { callHost, type HostApi } from "./host-call.ts";
import { HostFailure } from "./host-failure.ts";

export interface GithubAppSettings {
  appId: string;
  /** In PEM format, as GitHub issues it. */
  privateKey: string;
  /** null: all messages that claim to come from GitHub are rejected. */
  webhookSecret: string | null;
  /** `https://github.com`, or the address of an Enterprise Server, without a trailing slash. */
  webUrl: string;
  /** OAuth client of the App, with which the installing user proves access to the installation. */
  client: { id: string; secret: string } | null;
  /** Whether `webUrl` may be a private address. */
  allowPrivateNetwork: boolean;
}

export interface Installation {
  id: number;
  account: string;
  accountType: "User" | "Organization";
  repositorySelection: "all" | "selected" | null;
  settingsUrl: string | null;
  createdAt: Date;
}

export interface HostRepository {
  id: number;
  name: string;
  owner: string;
  url: string;
  defaultBranch: string;
}

/** Permissions of a token. Each token is created for one purpose. */
export type TokenPermissions = Partial<Record<"contents" | "metadata", "read">> &
  Partial<Record<"checks" | "pull_requests", "read" | "write">>;

/** Access to the App of this server, which may be created and removed while the server runs. */
export interface GithubApps {
  /** Whether the App comes from the server's configuration, which takes precedence. */
  readonly isConfigured: boolean;
  /** Returns the App, or null. */
  current(): Promise<GithubApp | null>;
}

/** GitHub App of this server. Every call may throw HostFailure. */
export interface GithubApp {
  readonly appId: string;
  readonly webUrl: string;
  readonly allowPrivateNetwork: boolean;
  readonly webhookSecret: string | null;
  /** Whether the installing user can prove access to the installation. */
  readonly provesOwners: boolean;
  /** Page for installing the App. */
  installUrl(signal: AbortSignal): Promise<string>;
  readInstallation(id: number, signal: AbortSignal): Promise<Installation>;
  /** Sign-in page of the App's OAuth client; null without a client. */
  signInUrl(state: string): string | null;
  /** Returns the installations that the signed-in user can access, by the code of the sign-in. */
  installationsOfUser(code: string, signal: AbortSignal): Promise<Installation[]>;
  /** Returns all repositories of an installation, by full name. */
  listRepositories(id: number, signal: AbortSignal): Promise<HostRepository[]>;
  /** Creates a token that is valid for one hour and not stored. @param repository Name without the owner. */
  mintToken(
    id: number,
    asked: { repository?: string; permissions: TokenPermissions },
    signal: AbortSignal,
  ): Promise<string>;
  /** Returns the API access with such a token. */
  apiWith(token: string): HostApi;
}

/** GitHub rejects lifetimes above ten minutes. The margin allows for a clock difference of one minute. */
const tokenLifeS = 540;
const clockSkewS = 60;

const pageSize = 100;
/** 5,000 repositories. Larger organizations should select repositories for the App. */
const pagesMax = 50;

/** Creates the App. @throws Error for an invalid private key. */
export function createGithubApp(settings: GithubAppSettings): GithubApp {
  const { appId, webUrl, webhookSecret, client, allowPrivateNetwork } = settings;
  const key = readKey(settings.privateKey);
  const apiUrl = apiUrlOf(webUrl);
  const api = (headers: Record<string, string>, url = apiUrl): HostApi => ({
    url,
    headers: { ...headers, "x-github-api-version": "2022-11-28" },
    allowPrivateNetwork,
  });
  const accept = "application/vnd.github+json";
  const asApp = () => api({ accept, authorization: `Bearer ${signToken(appId, key)}` });
  const apiWith = (token: string) => api({ accept, authorization: `Bearer ${token}` });

  const mintToken: GithubApp["mintToken"] = async (id, { repository, permissions }, signal) => {
    const body = { permissions, ...(repository !== undefined && { repositories: [repository] }) };
    const path = `/app/installations/${id}/access_tokens`;
    const answer = await callHost(asApp(), { method: "POST", path, body, signal });
    const { token } = (answer.body ?? {}) as { token?: unknown };
    if (typeof token !== "string" || token === "") throw strange(apiUrl);
    return token;
  };

  return {
    ...{ appId, webUrl, allowPrivateNetwork, webhookSecret, mintToken, apiWith },
    provesOwners: client !== null,
    signInUrl(state) {
      return client && `${webUrl}/login/oauth/authorize?${new URLSearchParams({ client_id: client.id, state })}`;
    },
    async installUrl(signal) {
      const { body } = await callHost(asApp(), { path: "/app", signal });
      const { html_url: page } = (body ?? {}) as { html_url?: unknown };
      if (typeof page !== "string" || !page.startsWith(`${webUrl}/`)) throw strange(apiUrl);
      return `${page}/installations/new`;
    },
    async readInstallation(id, signal) {
      const { body } = await callHost(asApp(), { path: `/app/installations/${id}`, signal });
      const installation = installationOf(body);
      if (installation === null) throw strange(apiUrl);
      return installation;
    },
    async installationsOfUser(code, signal) {
      if (client === null) return [];
      const body = { client_id: client.id, client_secret: client.secret, code };
      const asked = { method: "POST", path: "/login/oauth/access_token", body, signal };
      const { access_token: token } = ((await callHost(api({}, webUrl), asked)).body ?? {}) as {
        access_token?: unknown;
      };
      if (typeof token !== "string")
        throw new HostFailure("refused", "The code of this installation is not good any more.");
      const found = await pages(apiWith(token), "/user/installations", "installations", signal);
      return found.map(installationOf).filter((one) => one !== null);
    },
    async listRepositories(id, signal) {
      const token = await mintToken(id, { permissions: { metadata: "read" } }, signal);
      const found = await pages(apiWith(token), "/installation/repositories", "repositories", signal);
      return found
        .map((one) => repositoryOf(one, apiUrl))
        .sort((a, b) => (`${a.owner}/${a.name}` < `${b.owner}/${b.name}` ? -1 : 1));
    },
  };
}

/** Returns all items of a list with pages of 100. */
async function pages(api: HostApi, path: string, field: string, signal: AbortSignal): Promise<unknown[]> {
  const items: unknown[] = [];
  for (let page = 1; page <= pagesMax; page += 1) {
    const { body } = await callHost(api, { path: `${path}?per_page=${pageSize}&page=${page}`, signal });
    const found = ((body ?? {}) as Record<string, unknown>)[field];
    if (!Array.isArray(found)) throw strange(api.url);
    items.push(...found);
    if (found.length < pageSize) break;
  }
  return items;
}

/** Returns the base address of a GitHub server without a trailing slash, or null for an invalid address. */
export function githubAddress(text: string): string | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isPlain = url?.username === "" && url.password === "" && url.search === "" && url.hash === "";
  if (url === null || !isPlain || !["https:", "http:"].includes(url.protocol)) return null;
  return url.href.replace(/\/+$/, "");
}

/** Returns the API address: below the address of an Enterprise Server, or on a separate host for github.com. */
export function apiUrlOf(webUrl: string): string {
  return webUrl === "https://github.com" ? "https://api.github.com" : `${webUrl}/api/v3`;
}

/** Creates a JSON Web Token (RFC 7519), signed by the App with RS256. */
function signToken(appId: string, key: KeyObject): string {
  const nowS = Math.floor(Date.now() / 1_000);
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = { iat: nowS - clockSkewS, exp: nowS + tokenLifeS - clockSkewS, iss: appId };
  const text = `${part({ alg: "RS256", typ: "JWT" })}.${part(claims)}`;
  return `${text}.${createSign("RSA-SHA256").update(text).sign(key, "base64url")}`;
}

/** Parses a key. Some environments do not allow line breaks in variables, so `\n` and base64 are accepted. */
function readKey(text: string): KeyObject {
  const pem = text.includes("-----BEGIN") ? text.replaceAll("\\n", "\n") : Buffer.from(text, "base64").toString("utf8");
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyType === "rsa") return key;
  } catch {
    // reported below, without the text, because it may contain the key
  }
  throw new Error("the GitHub App's private key is not an RSA private key in PEM form, as GitHub hands it out");
}

interface GithubInstallation {
  id?: unknown;
  account?: { login?: unknown; type?: unknown } | null;
  repository_selection?: unknown;
  html_url?: unknown;
  created_at?: unknown;
}

/** Parses an installation. Returns null for other accounts, such as enterprises, which have no repositories. */
function installationOf(body: unknown): Installation | null {
  const {
    id,
    account,
    repository_selection: selection,
    html_url: page,
    created_at,
  } = (body ?? {}) as GithubInstallation;
  if (!Number.isSafeInteger(id) || typeof account?.login !== "string") return null;
  return {
    id: id as number,
    account: account.login,
    accountType: account.type === "User" ? "User" : "Organization",
    repositorySelection: selection === "all" || selection === "selected" ? selection : null,
    settingsUrl: typeof page === "string" ? page : null,
    createdAt: new Date(String(created_at)),
  };
}

interface GithubRepositoryBody {
  id?: unknown;
  name?: unknown;
  owner?: { login?: unknown } | null;
  html_url?: unknown;
  default_branch?: unknown;
}

function repositoryOf(body: unknown, url: string): HostRepository {
  const { id, name, owner, html_url: page, default_branch: branch } = (body ?? {}) as GithubRepositoryBody;
  if (!Number.isSafeInteger(id) || typeof name !== "string" || typeof page !== "string") throw strange(url);
  return {
    ...{ id: id as number, name, url: page },
    owner: typeof owner?.login === "string" ? owner.login : "",
    defaultBranch: typeof branch === "string" ? branch : "main",
  };
}

const strange = (url: string) =>
  new HostFailure("unreachable", `${new URL(url).host} answered something else than GitHub's API does.`);
