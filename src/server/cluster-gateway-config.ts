import { readTrustedProxies, type TrustedProxies } from "../base/trusted-proxies.ts";
import { listenerSettings } from "./listener-config.ts";
import { type Environment, optional, type Read, readSettings, whole } from "./setting.ts";

/** All variables that `pierhead listener gateway` reads. */
export const clusterGatewaySettings = {
  url: listenerSettings.url,
  agentsUrl: {
    ...listenerSettings.agentsUrl,
    fallback: "by path only",
    meaning:
      "URL at which callers reach the agents, which names the domain of the gateway: `https://{slug}.agents.example.com`. Agents also answer under `/d/{slug}`.",
  },
  host: listenerSettings.host,
  port: whole("PORT", 8126, 0, 65_535, "Port for the callers of agents."),
  countsPort: whole(
    "PIERHEAD_GATEWAY_COUNTS_PORT",
    8127,
    0,
    65_535,
    "Port of `/ok`, `/ready`, and of the counters that the listener reads. Callers must not reach it.",
  ),
  trustedProxies: optional(
    "PIERHEAD_TRUSTED_PROXIES",
    "none",
    "Addresses and networks of the ingress controller, comma-separated. Their `X-Forwarded-*` headers are trusted.",
  ),
  leaveMs: whole(
    "PIERHEAD_GATEWAY_LEAVE_MS",
    10_000,
    0,
    600_000,
    "Time after a termination signal for which new requests are still taken, because the cluster learns of it late.",
  ),
  drainMs: whole(
    "PIERHEAD_GATEWAY_DRAIN_MS",
    300_000,
    0,
    3_600_000,
    "Time for which requests in flight may then continue.",
  ),
  kubernetesHost: listenerSettings.kubernetesHost,
  kubernetesPort: listenerSettings.kubernetesPort,
  kubernetesUrl: listenerSettings.kubernetesUrl,
  kubernetesTokenFile: listenerSettings.kubernetesTokenFile,
  kubernetesCaFile: listenerSettings.kubernetesCaFile,
  kubernetesNamespaces: listenerSettings.kubernetesNamespaces,
  logLevel: listenerSettings.logLevel,
  logFormat: listenerSettings.logFormat,
};

export interface ClusterGatewayConfig
  extends Omit<Read<typeof clusterGatewaySettings>, "url" | "agentsUrl" | "trustedProxies" | "kubernetesNamespaces"> {
  url: string;
  /** Agents answer at `<slug>.<rootDomain>` and at `<pathPrefix><slug>`. */
  site: { rootDomain: string; pathPrefix: string; publicUrl: string | null };
  trustedProxies: TrustedProxies;
  namespaces: string[];
}

/** Reads the configuration of `pierhead listener gateway`. @throws Error naming the variable, its expected format and its value. */
export function readClusterGatewayConfig(environment: Environment): ClusterGatewayConfig {
  const read = readSettings(clusterGatewaySettings, environment);
  const { url, agentsUrl, trustedProxies = "", kubernetesNamespaces } = read;
  if (url === undefined || !/^https?:\/\//.test(url) || !URL.canParse(url)) {
    throw new Error("PIERHEAD_URL must be the http or https address of the control plane");
  }
  const namespaces = kubernetesNamespaces.split(",").map((one) => one.trim());
  return {
    ...read,
    ...{ url, namespaces, site: siteOf(agentsUrl), trustedProxies: readProxies(trustedProxies) },
  };
}

/** A domain that no request has, so that agents answer by path only. */
const noDomain = "agents.invalid";

/** Returns the names under which this address serves agents. @throws Error if the slug is neither the first label nor a whole path part. */
function siteOf(agentsUrl: string | undefined): ClusterGatewayConfig["site"] {
  if (agentsUrl === undefined) return { rootDomain: noDomain, pathPrefix: "/d/", publicUrl: null };
  const byHost = /^(https?):\/\/\{slug\}\.([a-z0-9.-]+)(:\d+)?\/?$/i.exec(agentsUrl);
  if (byHost !== null) {
    const [, scheme, domain = "", port = ""] = byHost;
    return { rootDomain: domain.toLowerCase(), pathPrefix: "/d/", publicUrl: `${scheme}://${domain}${port}` };
  }
  const byPath = /^(https?:\/\/[^/{}]+)(\/(?:[^{}]*\/)?)\{slug\}\/?$/i.exec(agentsUrl);
  if (byPath !== null) {
    const [, publicUrl = "", pathPrefix = ""] = byPath;
    return { rootDomain: noDomain, pathPrefix, publicUrl };
  }
  throw new Error(
    `PIERHEAD_AGENTS_URL must be like https://{slug}.agents.example.com or https://agents.example.com/d/{slug}, got "${agentsUrl}"`,
  );
}

function readProxies(list: string): TrustedProxies {
  try {
    return readTrustedProxies(list);
  } catch (error) {
    throw new Error(`PIERHEAD_TRUSTED_PROXIES ${(error as Error).message}`);
  }
}
