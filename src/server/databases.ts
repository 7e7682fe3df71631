import { Services } from "../compute/docker/services/services.ts";
import { containerPostgres, containerRedis } from "../provision/container-databases.ts";
import { sharedPostgres } from "../provision/shared-postgres.ts";
import { sharedRedis } from "../provision/shared-redis.ts";
import type { DatabaseServers } from "../reconciler/steps/database-servers.ts";
import type { Closing } from "./closing.ts";
import type { Config } from "./config.ts";
import type { ImageNames } from "./registry.ts";

/** Returns the configured database servers of deployments. Servers that new deployments no longer use keep serving existing ones. */
export function databaseServers(
  config: Config,
  parts: { installationId: string; imageNames: ImageNames; closing: Closing },
): DatabaseServers | null {
  const { agentPostgresUrl, agentPostgresAddress, agentRedisUrl, agentRedisAddress, compute } = config;
  if (agentPostgresUrl === undefined && agentRedisUrl === undefined && compute !== "docker") return null;
  return {
    shared: {
      postgres: agentPostgresUrl ? sharedPostgres({ adminUrl: agentPostgresUrl, address: agentPostgresAddress }) : null,
      redis: agentRedisUrl ? sharedRedis({ adminUrl: agentRedisUrl, address: agentRedisAddress }) : null,
    },
    container: compute === "docker" ? containerServers(config, parts) : null,
    areContainersWanted: config.agentDatabases === "containers",
  };
}

/** Returns which databases new deployments of this server get, for the log. */
export function describeAgentDatabases(config: Config): string {
  if (config.agentDatabases === "containers") return "PostgreSQL and Redis in containers";
  const { agentPostgresUrl, agentPostgresAddress, agentRedisUrl, agentRedisAddress } = config;
  const shown = (name: string, url: string | undefined, address = hostOf(url)) =>
    url === undefined ? [] : [`${name}${address === "" ? "" : ` at ${address}`}`];
  const found = [
    ...shown("PostgreSQL", agentPostgresUrl, agentPostgresAddress),
    ...shown("Redis", agentRedisUrl, agentRedisAddress),
  ];
  return found.join(", ") || "none";
}

/** Without the credentials of the address. */
const hostOf = (url = "") => (URL.canParse(url) ? new URL(url).host : "");

function containerServers(
  { dockerHost: host, agentPostgresImage, agentRedisImage }: Config,
  parts: { installationId: string; imageNames: ImageNames; closing: Closing },
): DatabaseServers["container"] {
  const { installationId, imageNames, closing } = parts;
  const containers = new Services({ host, installationId, credentialOf: (uri) => imageNames.credentialOf(uri) });
  closing.add("databases", () => containers.close());
  return {
    postgres: containerPostgres({ containers, image: agentPostgresImage }),
    redis: containerRedis({ containers, image: agentRedisImage }),
  };
}
