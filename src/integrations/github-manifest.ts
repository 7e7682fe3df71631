import { apiUrlOf } from "./github-app.ts";
import { callHost } from "./host-call.ts";
import { HostFailure } from "./host-failure.ts";
import { isPublicAddress } from "./outbound-address.ts";

/** What an App that GitHub is to make is called, and where this server is. */
export interface ManifestWishes {
  name: string;
  /** Base of this server's addresses, without a slash at the end. */
  serverUrl: string;
  /** Whether accounts other than its owner's may install it. */
  isPublic: boolean;
}

/**
 * The App that this server needs, in the words of GitHub's manifests: what it may do, and where GitHub tells and sends
 * people. People who install it come with a proof of who they are, so they come to the callback address; GitHub takes no
 * set-up address beside it.
 */
export function appManifest({ name, serverUrl, isPublic }: ManifestWishes) {
  const hook = isReachable(serverUrl) ? { url: `${serverUrl}/v1/integrations/github/webhook`, active: true } : null;
  return {
    name,
    url: serverUrl,
    description: "Deploys agents from repositories, and says there how it goes.",
    redirect_url: `${serverUrl}/v2/auth/github-app/created`,
    callback_urls: [`${serverUrl}/v2/auth/setup/github`],
    request_oauth_on_install: true,
    public: isPublic,
    default_permissions: { contents: "read", metadata: "read", checks: "write", pull_requests: "write" },
    // Without an address for messages GitHub takes neither the part about it nor events.
    ...(hook !== null && { hook_attributes: hook, default_events: ["push", "pull_request"] }),
  };
}

/** GitHub refuses an App whose webhook leads to an address that is plainly not public. */
export function isReachable(serverUrl: string): boolean {
  const host = new URL(serverUrl).hostname.replace(/^\[(.*)\]$/, "$1");
  if (/^[\d.]+$|:/.test(host)) return isPublicAddress(host);
  return host.includes(".") && !/\.(localhost|local|internal|test|invalid|example)$/.test(host);
}

/** Where a browser hands in a manifest. @param organization null: the App is to be of whoever is signed in. */
export function manifestTarget(webUrl: string, organization: string | null, state: string): string {
  const owner = organization === null ? "" : `/organizations/${encodeURIComponent(organization)}`;
  return `${webUrl}${owner}/settings/apps/new?${new URLSearchParams({ state })}`;
}

/** An App that GitHub has made. */
export interface MadeApp {
  appId: string;
  name: string;
  /** Its page at GitHub. */
  pageUrl: string;
  clientId: string;
  clientSecret: string;
  /** null: it has no webhook. */
  webhookSecret: string | null;
  /** PEM. */
  privateKey: string;
}

/**
 * Asks for the App that was made from a manifest; the code is good once, for an hour.
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
