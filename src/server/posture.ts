import type { Posture, PostureItem } from "../contract/administration/posture.ts";

/** Settings that decide whether a server is local, and those whose default follows from it. */
export interface PostureSettings {
  mode: string;
  host: string;
  publicUrl: string | undefined;
  rootDomain: string;
  trustedProxies: string | undefined;
  compute: string;
  endpointAuth: boolean;
  allowLocalSources: boolean | undefined;
  allowPrivateNetwork: boolean | undefined;
  anonymousMetrics: boolean | undefined;
  webhookAnswers: boolean;
}

/**
 * Computes the posture of a server. A server is local if nothing but programs of its own machine can reach it: it listens on
 * loopback, and no setting announces an address or a proxy through which others do. Only a local server has the defaults of a
 * laptop. An explicit setting wins over both.
 */
export function postureOf(settings: PostureSettings): Posture {
  const publicBecause = whyPublic(settings);
  const isLocal = publicBecause === null;
  const because = publicBecause ?? "it listens on loopback, and no setting announces another address or a proxy";
  const laptopDefault = (given: boolean | undefined, setting: string) => ({
    setting,
    is_on: given ?? isLocal,
    because: given === undefined ? `the default of a ${isLocal ? "local" : "public"} server` : "set explicitly",
  });
  const items: PostureItem[] = [
    { name: "local sources", ...laptopDefault(settings.allowLocalSources, "PIERHEAD_ALLOW_LOCAL_SOURCES") },
    { name: "private network", ...laptopDefault(settings.allowPrivateNetwork, "PIERHEAD_ALLOW_PRIVATE_NETWORK") },
    { name: "anonymous metrics", ...laptopDefault(settings.anonymousMetrics, "PIERHEAD_ANONYMOUS_METRICS") },
    {
      name: "webhook answers",
      setting: "PIERHEAD_WEBHOOK_ANSWERS",
      is_on: settings.webhookAnswers,
      because: settings.webhookAnswers ? "set explicitly" : "the default of every server",
    },
    {
      name: "anonymous agents",
      setting: "PIERHEAD_ENDPOINT_AUTH",
      is_on: !settings.endpointAuth,
      because: settings.endpointAuth ? "agents ask callers for a key" : "the default of every server",
    },
    {
      name: "agents as the server's user",
      setting: "PIERHEAD_COMPUTE",
      is_on: settings.compute === "process",
      because: `the compute is ${settings.compute}`,
    },
    {
      name: "forwarded headers",
      setting: "PIERHEAD_TRUSTED_PROXIES",
      is_on: settings.trustedProxies !== undefined,
      because: settings.trustedProxies === undefined ? "no proxy is trusted" : `from ${settings.trustedProxies}`,
    },
  ];
  return { kind: isLocal ? "local" : "public", because, items };
}

/** Returns whether an item is on. */
export const isOn = (posture: Posture, name: PostureItem["name"]): boolean =>
  posture.items.some((item) => item.name === name && item.is_on);

/** Returns why others than the programs of this machine can reach the server; null if they cannot. */
function whyPublic({ mode, host, publicUrl, rootDomain, trustedProxies }: PostureSettings): string | null {
  if (mode !== "standalone") return `PIERHEAD_MODE is ${mode}`;
  if (!isLoopback(host)) return `HOST is ${host}, which is not loopback`;
  if (publicUrl !== undefined && !isLoopback(new URL(publicUrl).hostname)) {
    return `PIERHEAD_PUBLIC_URL is ${publicUrl}, which is not loopback`;
  }
  if (!isLoopback(rootDomain)) return `agents answer at names of ${rootDomain}, which is not loopback`;
  if (trustedProxies !== undefined) return "PIERHEAD_TRUSTED_PROXIES names a proxy in front of it";
  return null;
}

/** Whether a host is this machine's loopback. `localhost` and every name below it are (RFC 6761, section 6.3). */
function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, "");
  return /^(.+\.)?localhost$/.test(name) || /^\[?::1\]?$/.test(name) || /^127\.\d+\.\d+\.\d+$/.test(name);
}
