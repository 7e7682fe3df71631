import { homedir } from "node:os";
import path from "node:path";
import { readOrigins } from "../api/http/cross-origin.ts";
import type { OidcSettings } from "../auth/oidc.ts";
import { readTrustedProxies, type TrustedProxies } from "../base/trusted-proxies.ts";
import type { Region } from "../contract/administration/info.ts";
import type { Posture } from "../contract/administration/posture.ts";
import { branchPollMs, buildConcurrencyMax } from "../domain/limits.ts";
import { defaultCloudRegions } from "../domain/mode.ts";
import type { MailSettings } from "../integrations/mail.ts";
import type { BucketSettings } from "../integrations/object-storage.ts";
import { agentDatabaseSettings } from "./agent-database-settings.ts";
import { agentTracingSettings } from "./agent-tracing-settings.ts";
import { type AgentsDomain, readAgentsDomain } from "./agents-domain.ts";
import { dockerSettings } from "./docker-settings.ts";
import { githubSettings } from "./github-settings.ts";
import { logSettings } from "./log-settings.ts";
import { mailSettings, readMail } from "./mail-settings.ts";
import { objectStorageSettings, readBucket } from "./object-storage-settings.ts";
import { oidcSettings, readOidc } from "./oidc-settings.ts";
import { tracesSettings } from "./otel.ts";
import { isOn, postureOf } from "./posture.ts";
import {
  directory,
  type Environment,
  flag,
  oneOf,
  optional,
  optionalFlag,
  optionalKey,
  optionalWhole,
  type Read,
  readSettings,
  requireScheme,
  text,
  whole,
} from "./setting.ts";
import { shareSettings } from "./share-settings.ts";
import { timeSettings } from "./time-settings.ts";
import { tuningOff } from "./tuning/switches.ts";

const computeTypes = ["process", "docker", "simulated", "none"] as const;

/** All variables that the server reads. `scripts/generate.ts` writes the reference page from this table. */
export const settings = {
  port: whole("PORT", 8124, 0, 65_535, "Port of the API, the console and the gateway paths; 0 picks a free one."),
  host: text("HOST", "127.0.0.1", "Address to listen on."),
  gatewayPort: optionalWhole("PIERHEAD_GATEWAY_PORT", 0, 65_535, "Additional port that serves only the gateway."),
  databaseUrl: optional(
    "DATABASE_URL",
    "embedded",
    "PostgreSQL >= 14. Unset: the embedded database in the data directory.",
  ),
  dataDir: directory(
    "PIERHEAD_DATA_DIR",
    path.join(homedir(), ".pierhead"),
    "~/.pierhead",
    "Embedded database, uploads, artifacts, replica state and logs.",
  ),
  databaseTemplateDir: optional(
    "PIERHEAD_DATABASE_TEMPLATE_DIR",
    "the template shipped with the program",
    "Directory with the archive of an empty embedded database, which makes the first start 2 s faster.",
  ),
  cacheDir: optional("PIERHEAD_CACHE_DIR", "<data dir>/cache", "Package caches and agent server toolchains."),
  templatesDir: optional(
    "PIERHEAD_TEMPLATES_DIR",
    "the templates shipped with the program",
    "Directory of the template catalogue.",
  ),
  mode: oneOf(
    "PIERHEAD_MODE",
    ["standalone", "cloud", "self_hosted"] as const,
    "Determines which sources and listeners are offered.",
  ),
  region: text("PIERHEAD_REGION", "local", "Name of this installation among `PIERHEAD_REGIONS`."),
  regions: optional("PIERHEAD_REGIONS", "by mode", "Regions in cloud mode: comma-separated `name=url` pairs."),
  basePath: text("BASE_PATH", "", "Path prefix that a reverse proxy adds before the API."),
  publicUrl: optional(
    "PIERHEAD_PUBLIC_URL",
    "from the request",
    "Base of all absolute URLs in responses. An address that is not loopback makes the server public.",
  ),
  trustedProxies: optional(
    "PIERHEAD_TRUSTED_PROXIES",
    "none",
    "Addresses and networks of reverse proxies whose `X-Forwarded-*` headers are true: `127.0.0.1, 10.0.0.0/8`. Makes the server public.",
  ),
  rootDomain: text(
    "PIERHEAD_ROOT_DOMAIN",
    "localhost",
    "Deployments also answer at `<slug>.<this>`. `PIERHEAD_AGENTS_DOMAIN` replaces it.",
  ),
  corsOrigins: optional(
    "PIERHEAD_CORS_ORIGINS",
    "none",
    "Origins whose pages may call the API with a key: comma-separated, such as `https://app.example.org`. Never with the console's session.",
  ),
  agentsDomain: optional(
    "PIERHEAD_AGENTS_DOMAIN",
    "none",
    "Domain that serves the agents alone: each has its address at `<slug>.<this>`, with the scheme and port of `PIERHEAD_PUBLIC_URL`. Keeps their pages and cookies away from the console.",
  ),
  masterKey: optional(
    "PIERHEAD_MASTER_KEY",
    "created at first start",
    "32 bytes in base64 or hex; encrypts the data keys that seal secrets.",
  ),
  masterKeyFile: optional("PIERHEAD_MASTER_KEY_FILE", "<data dir>/master.key", "File with the master key."),
  previousMasterKey: optional(
    "PIERHEAD_PREVIOUS_MASTER_KEY",
    "none",
    "The previous master key, for a rotation. The next start re-encrypts the data keys under the new one.",
  ),
  adminKey: optionalKey(
    "PIERHEAD_ADMIN_KEY",
    "generated",
    "Initial admin key; written to credentials.json in the data directory.",
  ),
  ...agentDatabaseSettings,
  ...githubSettings,
  branchPollMs: whole(
    "PIERHEAD_BRANCH_POLL_MS",
    branchPollMs,
    1_000,
    3_600_000,
    "Poll interval for followed branches when no webhook reported a push.",
  ),
  ...agentTracingSettings,
  compute: oneOf("PIERHEAD_COMPUTE", computeTypes, "Compute of the built-in listener."),
  listenerKey: optionalKey(
    "PIERHEAD_LISTENER_KEY",
    "none",
    "With `PIERHEAD_COMPUTE=none`: key of a `pierhead listener` on this host that runs the agents instead of this server.",
  ),
  dockerHost: text(
    "DOCKER_HOST",
    "unix:///var/run/docker.sock",
    "Container engine on this machine for docker compute: `unix:///path` or `tcp://host:port`.",
  ),
  dockerReadOnlyRoot: flag(
    "PIERHEAD_DOCKER_READ_ONLY_ROOT",
    false,
    "Containers can write only to /tmp and to their state directory.",
  ),
  allowLocalSources: optionalFlag("PIERHEAD_ALLOW_LOCAL_SOURCES", "Allows Git URLs into this host's file system."),
  allowPrivateNetwork: optionalFlag(
    "PIERHEAD_ALLOW_PRIVATE_NETWORK",
    "Allows Git, webhooks, OAuth and registries to call private address ranges.",
  ),
  anonymousMetrics: optionalFlag(
    "PIERHEAD_ANONYMOUS_METRICS",
    "Lets `/metrics` answer without a token, with the figures of deployments unless `PIERHEAD_METRICS_TOKEN` is set.",
  ),
  webhookAnswers: flag(
    "PIERHEAD_WEBHOOK_ANSWERS",
    false,
    "Records the start of each answer to a webhook, which the webhook's owner can read. Off: only status and size.",
  ),
  endpointAuth: flag(
    "PIERHEAD_ENDPOINT_AUTH",
    false,
    "Agents require an API key of their workspace (of any workspace if the deployment is shareable). Applies from each deployment's next revision.",
  ),
  allowsExec: flag(
    "PIERHEAD_EXEC",
    true,
    "Deployers may run programs beside agents (`pierhead exec`, `pierhead shell`) and connect to agents through their listeners. They can read what the agent can.",
  ),
  replicaUrl: optional(
    "PIERHEAD_REPLICA_URL",
    "the first address of this machine",
    "With several replicas on one database: address of this one as the others reach it, such as `http://10.0.0.7:8124`. Connections through listeners need it.",
  ),
  serviceSecret: optional(
    "PIERHEAD_SERVICE_KEY_SECRET",
    "none",
    "Secret shared with services that sign their own keys (`X-Service-Key`, HS256) to get tokens for users; at least 32 characters. A key expires within an hour.",
  ),
  sharedAuthOrganizationId: optional(
    "PIERHEAD_SHARED_AUTH_ORGANIZATION",
    "none",
    "Id of the organization whose OAuth providers are available to every workspace (`use_agent_builder_public_oauth`).",
  ),
  uncappedResources: flag("PIERHEAD_UNCAPPED_RESOURCES", false, "Removes the CPU limits of resource_spec."),
  ...shareSettings,
  buildConcurrencyMax: whole(
    "PIERHEAD_BUILD_CONCURRENCY",
    buildConcurrencyMax,
    1,
    64,
    "Maximum number of concurrent builds on this server.",
  ),
  ...dockerSettings,
  ...oidcSettings,
  ...mailSettings,
  ...objectStorageSettings,
  ...tracesSettings,
  ...timeSettings,
  unusedAfterDays: optionalWhole(
    "PIERHEAD_UNUSED_AFTER_DAYS",
    1,
    3_650,
    "Days without a request and without a new revision after which a deployment is shown as UNUSED. It keeps running.",
  ),
  metricsToken: optionalKey(
    "PIERHEAD_METRICS_TOKEN",
    "none",
    "Bearer token for `/metrics`, which then includes deployments.",
  ),
  ...logSettings,
  faultPoint: optional(
    "PIERHEAD_FAULT_POINT",
    "none",
    "For tests: kills the process at the named step (`name` or `name#count`).",
  ),
  tuningOff,
  simulatedSeed: whole("PIERHEAD_SIMULATED_SEED", 1, 0, 2_147_483_647, "Random seed of the simulated compute."),
};

type Settings = Read<typeof settings>;

type Computed =
  | "corsOrigins"
  | "agentsDomain"
  | "allowLocalSources"
  | "allowPrivateNetwork"
  | "anonymousMetrics"
  | "cacheDir"
  | "regions"
  | "trustedProxies";

export interface Config extends Omit<Settings, Computed> {
  /** From where the server can be reached, and what it allows therefore. */
  posture: Posture;
  allowLocalSources: boolean;
  allowPrivateNetwork: boolean;
  anonymousMetrics: boolean;
  trustedProxies: TrustedProxies;
  cacheDir: string;
  regions: Region[];
  /** Origins whose pages may call the API with a key. */
  corsOrigins: string[];
  /** Domain that serves the agents alone; null: they answer below the console's own address. */
  agentsDomain: AgentsDomain | null;
  /** Identity provider for members; null when sign-in is not configured. */
  oidc: OidcSettings | null;
  /** null: this server sends no mail. */
  mail: MailSettings | null;
  /** null: the data directory keeps uploads. */
  bucket: BucketSettings | null;
}

/** Length of the HS256 hash in bytes (RFC 7518, section 3.2). */
const serviceSecretLengthMin = 32;

/**
 * Reads the environment once, at start. No other code reads it: each part gets the values that it needs.
 * @throws Error naming the variable, its expected format and its value.
 */
export function readConfig(environment: Environment): Config {
  const read = readSettings(settings, environment);
  const postgres = ["postgresql", "postgres"];
  requireScheme("DATABASE_URL", read.databaseUrl, postgres, /^(\/|socket:)/);
  requireScheme("PIERHEAD_AGENT_POSTGRES_URL", read.agentPostgresUrl, postgres);
  requireScheme("PIERHEAD_AGENT_REDIS_URL", read.agentRedisUrl, ["redis", "rediss"]);
  if (read.serviceSecret !== undefined && read.serviceSecret.length < serviceSecretLengthMin) {
    throw new Error(`PIERHEAD_SERVICE_KEY_SECRET must have at least ${serviceSecretLengthMin} characters`);
  }
  if (read.agentDatabases === "containers" && read.compute !== "docker") {
    throw new Error("PIERHEAD_AGENT_DATABASES=containers needs PIERHEAD_COMPUTE=docker");
  }
  if (read.logArchiveDays > 0 && read.logArchiveDays <= read.logRetentionDays) {
    throw new Error("PIERHEAD_LOG_ARCHIVE_DAYS must be more than PIERHEAD_LOG_RETENTION_DAYS");
  }
  const publicUrl = read.publicUrl === undefined ? undefined : readPublicUrl(read.publicUrl);
  const agentsDomain = readAgentsDomain(read.agentsDomain, publicUrl);
  const posture = postureOf({ ...read, publicUrl, rootDomain: agentsDomain?.domain ?? read.rootDomain });
  return {
    ...read,
    oidc: readOidc(read),
    mail: readMail(read),
    bucket: readBucket(read),
    publicUrl,
    corsOrigins: readOrigins(read.corsOrigins),
    agentsDomain,
    replicaUrl: read.replicaUrl === undefined ? undefined : readReplicaUrl(read.replicaUrl),
    basePath: readBasePath(read.basePath),
    cacheDir: path.resolve(read.cacheDir ?? path.join(read.dataDir, "cache")),
    posture,
    allowLocalSources: isOn(posture, "local sources"),
    allowPrivateNetwork: isOn(posture, "private network"),
    anonymousMetrics: isOn(posture, "anonymous metrics"),
    trustedProxies: readProxies(read.trustedProxies),
    regions: readRegions(read.regions, read, publicUrl ?? `http://${read.host}:${read.port}`),
  };
}

function readProxies(given = ""): TrustedProxies {
  try {
    return readTrustedProxies(given);
  } catch (error) {
    throw new Error(`PIERHEAD_TRUSTED_PROXIES ${(error as Error).message}`);
  }
}

/** Removes trailing slashes, because paths are appended and `//` would break the links of agents and code hosts. */
function readPublicUrl(given: string): string {
  const url = URL.parse(given);
  if (url !== null && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "") {
    return given.replace(/\/+$/, "");
  }
  throw new Error(`PIERHEAD_PUBLIC_URL must be a URL such as https://pierhead.example.org, got "${given}"`);
}

/** Replicas speak HTTP to each other, and append paths. */
function readReplicaUrl(given: string): string {
  const url = URL.parse(given);
  if (url?.protocol === "http:" && url.href === `${url.origin}/`) return url.origin;
  throw new Error(`PIERHEAD_REPLICA_URL must be a URL such as http://10.0.0.7:8124, got "${given}"`);
}

function readBasePath(given: string): string {
  const path = given.replace(/\/+$/, "");
  if (/^(\/[^/?#\s]+)*$/.test(path)) return path;
  throw new Error(`BASE_PATH must be a path such as /pierhead, got "${given}"`);
}

/** Returns the installations of one product, each with its own address. Only cloud mode has more than one. */
function readRegions(
  list: string | undefined,
  read: Pick<Settings, "mode" | "region" | "rootDomain">,
  ownUrl: string,
): Region[] {
  if (list !== undefined) {
    return list.split(",").map((pair) => {
      const [name, url] = pair.split(/=(.*)/s).map((part) => part.trim());
      if (!name || !url) throw new Error(`PIERHEAD_REGIONS must be name=url pairs, got "${pair}"`);
      return { name, url };
    });
  }
  if (read.mode !== "cloud") return [{ name: read.region, url: ownUrl }];
  const names = new Set<string>([...defaultCloudRegions, read.region]);
  return [...names].map((name) => ({ name, url: `https://${name}.api.${read.rootDomain}` }));
}
