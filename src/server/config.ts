import { homedir } from "node:os";
import path from "node:path";
import type { OidcSettings } from "../auth/oidc.ts";
import type { Region } from "../contract/administration/info.ts";
import {
  branchPollMs,
  buildConcurrencyMax,
  buildTimeoutMs,
  deployTimeoutMs,
  drainTimeoutMs,
  eventRetentionDays,
  idleAfterMs,
  logRetentionDays,
  resyncIntervalMs,
  scaleDownAfterMs,
} from "../domain/limits.ts";
import { defaultCloudRegions } from "../domain/mode.ts";
import type { LogLevel } from "../telemetry/log.ts";
import { dockerSettings } from "./docker-settings.ts";
import { oidcSettings, readOidc } from "./oidc-settings.ts";
import { tracesSettings } from "./otel.ts";
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

const computeTypes = ["process", "docker", "simulated", "none"] as const;

/** Every variable this program reads. `scripts/generate.ts` writes the reference page from it. */
export const settings = {
  port: whole("PORT", 8124, 0, 65_535, "Port of the API, the console and the gateway paths; 0 picks a free one."),
  host: text("HOST", "127.0.0.1", "Address to listen on."),
  gatewayPort: optionalWhole("PIERHEAD_GATEWAY_PORT", 0, 65_535, "Gives the gateway a port of its own."),
  databaseUrl: optional(
    "DATABASE_URL",
    "embedded",
    "PostgreSQL >= 14. Absent: the embedded database in the data directory.",
  ),
  dataDir: directory(
    "PIERHEAD_DATA_DIR",
    path.join(homedir(), ".pierhead"),
    "~/.pierhead",
    "Embedded database, uploads, artifacts, replica state and logs.",
  ),
  databaseTemplateDir: optional(
    "PIERHEAD_DATABASE_TEMPLATE_DIR",
    "the one that comes with the program",
    "Where the archive of an empty embedded database lies; it saves the first start 2 s.",
  ),
  cacheDir: optional("PIERHEAD_CACHE_DIR", "<data dir>/cache", "Package caches and agent server toolchains."),
  templatesDir: optional(
    "PIERHEAD_TEMPLATES_DIR",
    "those that come with the program",
    "Directory of the template catalogue.",
  ),
  mode: oneOf(
    "PIERHEAD_MODE",
    ["standalone", "cloud", "self_hosted"] as const,
    "Which sources and listeners are offered.",
  ),
  region: text("PIERHEAD_REGION", "local", "Name of this installation among `PIERHEAD_REGIONS`."),
  regions: optional(
    "PIERHEAD_REGIONS",
    "by mode",
    "Regions of the cloud mode as `name=url` pairs separated by commas.",
  ),
  basePath: text("BASE_PATH", "", "Path prefix a proxy puts before the API."),
  publicUrl: optional("PIERHEAD_PUBLIC_URL", "from the request", "Base of every absolute URL that is given out."),
  rootDomain: text("PIERHEAD_ROOT_DOMAIN", "localhost", "Deployments also answer at `<slug>.<this>`."),
  masterKey: optional(
    "PIERHEAD_MASTER_KEY",
    "created at first start",
    "32 bytes, base64 or hex; wraps the keys that seal secrets.",
  ),
  masterKeyFile: optional("PIERHEAD_MASTER_KEY_FILE", "<data dir>/master.key", "File with the master key."),
  previousMasterKey: optional(
    "PIERHEAD_PREVIOUS_MASTER_KEY",
    "none",
    "The master key of before: the next start puts all that it wraps under the new one.",
  ),
  adminKey: optionalKey(
    "PIERHEAD_ADMIN_KEY",
    "generated",
    "The first admin key; written to credentials.json in the data directory.",
  ),
  agentPostgresUrl: optional(
    "PIERHEAD_AGENT_POSTGRES_URL",
    "none",
    "PostgreSQL on which every deployment gets a database of its own; a role that may create roles and databases.",
  ),
  agentPostgresAddress: optional(
    "PIERHEAD_AGENT_POSTGRES_ADDRESS",
    "that of the URL",
    "`host:port` under which agents reach that server.",
  ),
  agentRedisUrl: optional(
    "PIERHEAD_AGENT_REDIS_URL",
    "none",
    "Redis >= 6 on which every deployment gets a user with keys of its own; a user that may manage users.",
  ),
  agentRedisAddress: optional(
    "PIERHEAD_AGENT_REDIS_ADDRESS",
    "that of the URL",
    "`host:port` under which agents reach that server.",
  ),
  githubUrl: text(
    "PIERHEAD_GITHUB_URL",
    "https://github.com",
    "GitHub, or an Enterprise Server, that the GitHub App is of.",
  ),
  githubAppId: optional("PIERHEAD_GITHUB_APP_ID", "none", "Id of the GitHub App that reads private repositories."),
  githubPrivateKey: optional(
    "PIERHEAD_GITHUB_PRIVATE_KEY",
    "none",
    "Private key of that App: PEM, in which `\\n` may stand for a line break, or base64 of it.",
  ),
  githubPrivateKeyFile: optional("PIERHEAD_GITHUB_PRIVATE_KEY_FILE", "none", "File with the private key of that App."),
  githubWebhookSecret: optional("PIERHEAD_GITHUB_WEBHOOK_SECRET", "none", "What that App signs its webhooks with."),
  githubClientId: optional(
    "PIERHEAD_GITHUB_CLIENT_ID",
    "none",
    "Client id of that App; with it an installation is taken only from somebody who has access to it.",
  ),
  githubClientSecret: optional("PIERHEAD_GITHUB_CLIENT_SECRET", "none", "Client secret of that App."),
  branchPollMs: whole(
    "PIERHEAD_BRANCH_POLL_MS",
    branchPollMs,
    1_000,
    3_600_000,
    "How often a followed branch is looked at when no host told of a push.",
  ),
  tracing: oneOf(
    "PIERHEAD_TRACING",
    ["none", "langsmith", "otlp"] as const,
    "Where agents send their traces: a LangSmith-compatible server, which gets a project for each deployment, or an OpenTelemetry collector.",
  ),
  tracingUrl: optional(
    "PIERHEAD_TRACING_URL",
    "none",
    "API of that server (`https://host/api/v1`) or OTLP endpoint of that collector, as agents reach it too.",
  ),
  tracingKey: optional(
    "PIERHEAD_TRACING_KEY",
    "none",
    "API key of the LangSmith-compatible server; agents get it too.",
  ),
  tracingWorkspace: optional(
    "PIERHEAD_TRACING_WORKSPACE",
    "none",
    "Workspace there, when the key is good for several.",
  ),
  tracingHeaders: optional(
    "PIERHEAD_TRACING_HEADERS",
    "none",
    "Headers for the OpenTelemetry collector as `name=value` pairs separated by commas; agents get them too.",
  ),
  compute: oneOf("PIERHEAD_COMPUTE", computeTypes, "Compute of the built-in listener."),
  listenerKey: optionalKey(
    "PIERHEAD_LISTENER_KEY",
    "none",
    "With `PIERHEAD_COMPUTE=none`: key of a `pierhead listener` on this host that runs the agents in place of this server.",
  ),
  dockerHost: text(
    "DOCKER_HOST",
    "unix:///var/run/docker.sock",
    "Container engine of the docker compute, on this machine: `unix:///path` or `tcp://host:port`.",
  ),
  dockerReadOnlyRoot: flag(
    "PIERHEAD_DOCKER_READ_ONLY_ROOT",
    false,
    "Containers may write to /tmp and to their state only.",
  ),
  allowLocalSources: optionalFlag("PIERHEAD_ALLOW_LOCAL_SOURCES", "Git URLs into this host's file system."),
  allowPrivateNetwork: optionalFlag(
    "PIERHEAD_ALLOW_PRIVATE_NETWORK",
    "Git and outbound calls into private address ranges.",
  ),
  endpointAuth: flag(
    "PIERHEAD_ENDPOINT_AUTH",
    false,
    "Agents take requests only with a key of their workspace (of any workspace if the deployment is shareable); from the next revision of each on.",
  ),
  serviceSecret: optional(
    "PIERHEAD_SERVICE_KEY_SECRET",
    "none",
    "Shared with services that sign keys of their own (`X-Service-Key`, HS256) to get tokens for users; 32 characters at least.",
  ),
  sharedAuthOrganizationId: optional(
    "PIERHEAD_SHARED_AUTH_ORGANIZATION",
    "none",
    "Id of the organization whose OAuth providers every workspace may use (`use_agent_builder_public_oauth`).",
  ),
  uncappedResources: flag("PIERHEAD_UNCAPPED_RESOURCES", false, "Lifts the CPU bounds of resource_spec."),
  rateLimitPerS: whole(
    "PIERHEAD_RATE_LIMIT",
    1_000,
    0,
    1_000_000,
    "Requests per second that one API key may make of this server in the long run, and wrong keys per address; 0: no limit.",
  ),
  rateLimitBurst: whole(
    "PIERHEAD_RATE_LIMIT_BURST",
    5_000,
    1,
    1_000_000,
    "Requests that one API key may make at once, after a rest.",
  ),
  buildConcurrencyMax: whole(
    "PIERHEAD_BUILD_CONCURRENCY",
    buildConcurrencyMax,
    1,
    64,
    "Builds at the same time on this server.",
  ),
  ...dockerSettings,
  ...oidcSettings,
  ...tracesSettings,
  buildTimeoutMs: whole("PIERHEAD_BUILD_TIMEOUT_MS", buildTimeoutMs, 1_000, 86_400_000, "Deadline of one build."),
  deployTimeoutMs: whole(
    "PIERHEAD_DEPLOY_TIMEOUT_MS",
    deployTimeoutMs,
    1_000,
    86_400_000,
    "Deadline of new replicas to become healthy.",
  ),
  drainTimeoutMs: whole(
    "PIERHEAD_DRAIN_TIMEOUT_MS",
    drainTimeoutMs,
    0,
    3_600_000,
    "How long running requests may take to end when a replica is replaced.",
  ),
  idleAfterMs: whole(
    "PIERHEAD_IDLE_AFTER_MS",
    idleAfterMs,
    1_000,
    86_400_000,
    "A scale-to-zero deployment sleeps after this long without a request.",
  ),
  scaleDownAfterMs: whole(
    "PIERHEAD_SCALE_DOWN_AFTER_MS",
    scaleDownAfterMs,
    1_000,
    86_400_000,
    "A deployment gives up replicas after fewer would have done for this long; it gets more at once.",
  ),
  resyncIntervalMs: whole(
    "PIERHEAD_RESYNC_INTERVAL_MS",
    resyncIntervalMs,
    100,
    3_600_000,
    "How often lost changes are looked for.",
  ),
  logRetentionDays: whole(
    "PIERHEAD_LOG_RETENTION_DAYS",
    logRetentionDays,
    1,
    3_650,
    "How long the log lines of agents are kept; build logs stay with their revision.",
  ),
  eventRetentionDays: whole(
    "PIERHEAD_EVENT_RETENTION_DAYS",
    eventRetentionDays,
    1,
    3_650,
    "How long the events of deployments, and of OAuth tokens, are kept.",
  ),
  dataKeyDays: whole(
    "PIERHEAD_DATA_KEY_DAYS",
    90,
    0,
    36_500,
    "How old the key that seals secrets gets before there is a new one and all are sealed again; 0: any age.",
  ),
  auditRetentionDays: whole(
    "PIERHEAD_AUDIT_RETENTION_DAYS",
    0,
    0,
    36_500,
    "How long the audit log is kept; 0: for ever.",
  ),
  unusedAfterDays: optionalWhole(
    "PIERHEAD_UNUSED_AFTER_DAYS",
    1,
    3_650,
    "Deployments without a request and without a new revision for so many days are shown as UNUSED; they go on running.",
  ),
  metricsToken: optionalKey(
    "PIERHEAD_METRICS_TOKEN",
    "none",
    "Bearer token with which `/metrics` shows deployments; absent: it shows them when listening on loopback only.",
  ),
  logLevel: oneOf(
    "PIERHEAD_LOG_LEVEL",
    ["info", "debug", "warn", "error", "silent"] as const satisfies readonly LogLevel[],
    "Least level of the program's own log lines.",
  ),
  faultPoint: optional(
    "PIERHEAD_FAULT_POINT",
    "none",
    "For tests: kill this process when it reaches the named step (`name` or `name#count`).",
  ),
  simulatedSeed: whole("PIERHEAD_SIMULATED_SEED", 1, 0, 2_147_483_647, "Seed of the simulated compute."),
};

type Settings = Read<typeof settings>;

export interface Config extends Omit<Settings, "allowLocalSources" | "allowPrivateNetwork" | "cacheDir" | "regions"> {
  allowLocalSources: boolean;
  allowPrivateNetwork: boolean;
  cacheDir: string;
  regions: Region[];
  /** Where members sign in; null: nowhere. */
  oidc: OidcSettings | null;
}

/** As many bytes as its hash has (RFC 7518, section 3.2). */
const serviceSecretLengthMin = 32;

/**
 * Reads the environment once, at start. No other code reads it; each room is handed what it needs.
 * @throws Error naming the variable, what it must be and what it is.
 */
export function readConfig(environment: Environment): Config {
  const read = readSettings(settings, environment);
  const postgres = ["postgresql", "postgres"];
  requireScheme("DATABASE_URL", read.databaseUrl, postgres, /^(\/|socket:)/);
  requireScheme("PIERHEAD_AGENT_POSTGRES_URL", read.agentPostgresUrl, postgres);
  requireScheme("PIERHEAD_AGENT_REDIS_URL", read.agentRedisUrl, ["redis", "rediss"]);
  if (read.serviceSecret !== undefined && read.serviceSecret.length < serviceSecretLengthMin) {
    throw new Error(`PIERHEAD_SERVICE_KEY_SECRET must have ${serviceSecretLengthMin} characters at least`);
  }
  if (read.agentDatabases === "containers" && read.compute !== "docker") {
    throw new Error("PIERHEAD_AGENT_DATABASES=containers needs PIERHEAD_COMPUTE=docker");
  }
  const publicUrl = read.publicUrl === undefined ? undefined : readPublicUrl(read.publicUrl);
  const isLaptop = read.mode === "standalone" && isLoopback(read.host);
  return {
    ...read,
    oidc: readOidc(read),
    publicUrl,
    basePath: readBasePath(read.basePath),
    cacheDir: path.resolve(read.cacheDir ?? path.join(read.dataDir, "cache")),
    allowLocalSources: read.allowLocalSources ?? isLaptop,
    allowPrivateNetwork: read.allowPrivateNetwork ?? isLaptop,
    regions: readRegions(read.regions, read, publicUrl ?? `http://${read.host}:${read.port}`),
  };
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** Paths are put behind it: a slash at its end would lead agents, and links at code hosts, to `//`, which is nowhere. */
function readPublicUrl(given: string): string {
  const url = URL.parse(given);
  if (url !== null && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "") {
    return given.replace(/\/+$/, "");
  }
  throw new Error(`PIERHEAD_PUBLIC_URL must be such as https://pierhead.example.org, got "${given}"`);
}

function readBasePath(given: string): string {
  const path = given.replace(/\/+$/, "");
  if (/^(\/[^/?#\s]+)*$/.test(path)) return path;
  throw new Error(`BASE_PATH must be a path such as /pierhead, got "${given}"`);
}

/** The installations of one product, each with its own address; only the cloud mode has more than one. */
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
