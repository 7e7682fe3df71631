import { apiUrlOf } from "./github-app.ts";
import { callHost } from "./host-call.ts";
import { HostFailure } from "./host-failure.ts";
import { isPublicAddress } from "./outbound-address.ts";

/** Name of the App to create, and addresses of this server. */
export interface ManifestOptions {
  name: string;
  /** Base address of this server, without a trailing slash. */
  serverUrl: string;
  /** Whether accounts other than the owner may install the App. */
  isPublic: boolean;
}

/**
 * Returns the manifest of the App that this server needs: permissions, webhook and redirect addresses. After an installation GitHub
 * sends the user to the callback address with a code that proves their identity. GitHub accepts no setup address in addition.
 */
export function appManifest({ name, serverUrl, isPublic }: ManifestOptions) {
  const hook = isReachable(serverUrl) ? { url: `${serverUrl}/v1/integrations/github/webhook`, active: true } : null;
  return {
    name,
    url: serverUrl,
    description: "Deploys agents from repositories and reports the results to them.",
    redirect_url: `${serverUrl}/v2/auth/github-app/created`,
    callback_urls: [`${serverUrl}/v2/auth/setup/github`],
    request_oauth_on_install: true,
    public: isPublic,
    default_permissions: { contents: "read", metadata: "read", checks: "write", pull_requests: "write" },
    // Without a webhook address GitHub accepts neither hook attributes nor events.
    ...(hook !== null && { hook_attributes: hook, default_events: ["push", "pull_request"] }),
  };
}

/** Returns whether the server has a public address. GitHub rejects Apps with a webhook at an obviously private one. */
export function isReachable(serverUrl: string): boolean {
  const host = new URL(serverUrl).hostname.replace(/^\[(.*)\]$/, "$1");
  if (/^[\d.]+$|:/.test(host)) return isPublicAddress(host);
  return host.includes(".") && !/\.(localhost|local|internal|test|invalid|example)$/.test(host);
}

/** Returns the page to submit a manifest. @param organization Owner of the App; null: the signed-in user. */
export function manifestTarget(webUrl: string, organization: string | null, state: string): string {
  const owner = organization === null ? "" : `/organizations/${encodeURIComponent(organization)}`;
  return `${webUrl}${owner}/settings/apps/new?${new URLSearchParams({ state })}`;
}

/** App that GitHub has created. */
export interface MadeApp {
  appId: string;
  name: string;
  /** Page of the App on GitHub. */
  pageUrl: string;
  clientId: string;
  clientSecret: string;
  /** null: it has no webhook. */
  webhookSecret: string | null;
  /** In PEM format. */
  privateKey: string;
}

/**
 * Returns the App that GitHub created from a manifest. The code is valid for one hour and one use.
 * @throws HostFailure
 */
export async function convertManifest(
  { webUrl, allowPrivateNetwork }: { webUrl: string; allowPrivateNetwork: boolean },
  code: string,
  signal: AbortSignal,
): Promise<MadeApp> {
  const url = apiUrlOf(webUrl);
  const headers = { accept: "application/vnd.github+json", "x-github-api-version": "2022-11-28" };
  const path = `/app-manifests/${encodeURIComponent(code)}/conversions`;
  const { body } = await callHost({ url, headers, allowPrivateNetwork }, { method: "POST", path, signal });
  const made = (body ?? {}) as Record<string, unknown>;
  const text = (field: string) => {
    const value = made[field];
    if (typeof value === "string" && value !== "") return value;
    throw new HostFailure("unreachable", `${new URL(url).host} answered something else than GitHub's API does.`);
  };
  return {
    appId: String(Number.isSafeInteger(made["id"]) ? made["id"] : text("id")),
    name: text("name"),
    pageUrl: text("html_url"),
    clientId: text("client_id"),
    clientSecret: text("client_secret"),
    webhookSecret: typeof made["webhook_secret"] === "string" ? text("webhook_secret") : null,
    privateKey: text("pem"),
  };
}
